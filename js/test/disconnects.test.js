// Random disconnects from the plans that the Python client plays too: tests/cap/disconnects.py.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { load } from "./files.js";
import { playPlan } from "./wire_rows.js";

// proves: JS-exactly-once
describe("every packet is delivered exactly once", () => {
  for (const plan of load("tests/cap/cases/disconnects.json").cases) {
    test(plan.name, async () => {
      const { seen, expected } = await playPlan(plan);
      assert.deepEqual(seen, expected);
    });
  }
});
