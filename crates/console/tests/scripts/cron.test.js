import assert from "node:assert/strict";
import { test } from "node:test";

import { cronValues, withCronValue } from "../../assets/cron.js";

const MINUTE = 0;
const HOUR = 1;
const DAY = 2;
const MONTH = 3;
const WEEKDAY = 4;

test("the values of a field are listed, whatever form they have", () => {
  const cases = [
    ["*/15 * * * *", MINUTE, ["0", "15", "30", "45"]],
    ["5/20 * * * *", MINUTE, ["5", "25", "45"]],
    ["0 8-10,12 * * *", HOUR, ["8", "9", "10", "12"]],
    ["0 0 1,15,L * *", DAY, ["1", "15", "L"]],
    ["0 0 * jan,7-8 *", MONTH, ["1", "7", "8"]],
    ["0 9 * * Mon-Fri", WEEKDAY, ["1", "2", "3", "4", "5"]],
    ["0 9 * * 5-7", WEEKDAY, ["5", "6", "0"]],
    ["0 9 * * sat-sun", WEEKDAY, ["6", "0"]],
    ["0 9 * * 7-7", WEEKDAY, ["0"]],
    ["0 9 * * 7/2", WEEKDAY, ["0"]],
    ["0 9 * * 7", WEEKDAY, ["0"]],
    ["0 9 * * 7L", WEEKDAY, ["0L"]],
    ["0 9 * * 0-7", WEEKDAY, ["0", "1", "2", "3", "4", "5", "6"]],
    ["0 9 * * MON#2,5L", WEEKDAY, ["1#2", "5L"]],
    ["@daily", HOUR, ["0"]],
    ["0 9 * * *", WEEKDAY, []],
  ];
  for (const [text, field, expected] of cases) assert.deepEqual(cronValues(text, field), expected, text);
});

test("a field that cannot be read has no values", () => {
  for (const [text, field] of [["", MINUTE], ["* * * *", MINUTE], ["60 * * * *", MINUTE], ["10-5 * * * *", MINUTE], ["*/0 * * * *", MINUTE], ["0 0 * Foo *", MONTH], ["0 0 * * 1#6", WEEKDAY]]) {
    assert.equal(cronValues(text, field), null, text);
  }
});

test("a click adds a value or removes it, and the expression stays short", () => {
  const cases = [
    ["0 9 * * Mon-Fri", HOUR, "17", true, "0 9,17 * * Mon-Fri"],
    ["0 9 * * Mon-Fri", WEEKDAY, "3", false, "0 9 * * Mon,Tue,Thu,Fri"],
    ["0 9 * * *", WEEKDAY, "1#1", true, "0 9 * * Mon#1"],
    ["0 9 * * Mon#1", WEEKDAY, "5L", true, "0 9 * * Mon#1,FriL"],
    ["0 9 1 * *", DAY, "L", true, "0 9 1,L * *"],
    ["0 9 1 * *", DAY, "1", false, "0 9 * * *"],
    ["0 9 * * *", MONTH, "2", true, "0 9 * Feb *"],
    ["*/15 * * * *", MINUTE, "50", true, "0,15,30,45,50 * * * *"],
    ["@daily", HOUR, "12", true, "0 0,12 * * *"],
    ["not cron", HOUR, "12", true, "* 12 * * *"],
  ];
  for (const [text, field, value, isListed, expected] of cases) assert.equal(withCronValue(text, field, value, isListed), expected, text);
});
