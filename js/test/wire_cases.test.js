// The wire cases that also prove the Python client: tests/cap/cases/README.md describes them.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { load, ROOT } from "./files.js";
import { playCase } from "./wire_rows.js";

const CASES = "tests/cap/cases";
const OTHER_FILES = ["faults.json", "disconnects.json"];

const files = readdirSync(`${ROOT}${CASES}`)
  .filter((name) => name.endsWith(".json") && !OTHER_FILES.includes(name));

for (const file of files) {
  const { about, cases } = load(`${CASES}/${file}`);
  describe(about, () => {
    for (const item of cases) {
      test(item.name, async () => {
        const { seen, expected } = await playCase(item);
        assert.deepEqual(seen, expected);
      });
    }
  });
}

// proves: JS-wire-cases
test("the cases are found", () => assert.ok(files.length >= 9));
