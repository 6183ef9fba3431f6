// Fails unless every package of a lock file was installed with its version and content. npm versions differ in the
// optional packages of other platforms that they record.
//
// usage: node check-versions.mjs PINNED INSTALLED     two package-lock.json files

import { readFileSync } from "node:fs";

const [pinned, installed] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file)).packages);
const names = new Set([...Object.keys(pinned), ...Object.keys(installed)]);
const differs = (name) => {
  const [one, other] = [pinned[name], installed[name]];
  if (!one || !other) return !(one ?? other).optional;
  return one.version !== other.version || one.integrity !== other.integrity;
};
const different = [...names].filter(differs);
if (different.length) {
  console.error(`versions differ from the lock file: ${different.join(", ")}`);
  process.exit(1);
}
