// The package: its size, its files, and types that name what the module exports.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import * as client from "../coreason.js";

const FOLDER = fileURLToPath(new URL("../", import.meta.url));
const read = (name) => readFileSync(`${FOLDER}${name}`, "utf8");
const manifest = JSON.parse(read("package.json"));

test("the client is at most 13 KB, gzipped", () => {
  const size = gzipSync(read("coreason.js"), { level: 9 }).length;
  assert.ok(size <= 13 * 1024, `${size} bytes`);
});

test("it imports nothing", () => {
  assert.doesNotMatch(read("coreason.js"), /^\s*(import\b|export .* from\b)|\bimport\(|\brequire\(/m);
  assert.equal(manifest.dependencies, undefined);
});

test("every file that the manifest names exists, and nothing else is published", () => {
  const { types, default: main } = manifest.exports["."];
  assert.equal(types, manifest.types);
  for (const name of [types, main, ...manifest.files]) assert.ok(existsSync(`${FOLDER}${name}`), name);
  // npm always adds these; the tests stay out.
  const always = ["package.json", "README.md", "LICENSE"];
  assert.deepEqual(readdirSync(FOLDER).filter((name) => name !== "test" && name !== "node_modules").sort(),
    [...manifest.files, ...always].sort());
});

test("the types declare exactly the names that the module exports", () => {
  const declared = [...read("coreason.d.ts").matchAll(/^export (?:class|function) (\w+)/gm)];
  assert.deepEqual([...new Set(declared.map(([, name]) => name))].sort(), Object.keys(client).sort());
});

test("the types declare exactly the public members of the classes", () => {
  const text = read("coreason.d.ts");
  for (const name of ["CAPClient", "PacketStream", "ChatStream", "ResumeMachine", "SSEDecoder"]) {
    const [, block] = new RegExp(`^export class ${name}\\b[^]*?\\{\\n([^]*?)^\\}`, "m").exec(text);
    const declared = new Set([...block.matchAll(/^  (?:readonly )?(\w+)[(:<]/gm)].map(([, found]) => found));
    const methods = Object.getOwnPropertyNames(client[name].prototype)
      .filter((member) => !member.startsWith("_") && member !== "constructor");
    for (const method of methods) assert.ok(declared.has(method), `${name}.${method}`);
  }
});
