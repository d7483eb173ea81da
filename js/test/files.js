// The data files of the Python tests.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export function load(path) {
  return JSON.parse(readFileSync(`${ROOT}${path}`, "utf8"));
}
