// Data of tests.

/** Calls `action` for each item, some at a time. */
export async function each(items, action, width = 16) {
  const rest = [...items];
  await Promise.all(Array.from({ length: width }, async () => {
    while (rest.length) await action(rest.shift());
  }));
}

/** Creates jobs `{prefix}-00001` … in collections of a thousand. Disabled jobs are every tenth. */
export async function manyJobs(server, count, { prefix = "job", size = 1000 } = {}) {
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  await each(numbers, (number) => {
    const collection = `bulk-${String(Math.ceil(number / size)).padStart(3, "0")}`;
    return server.job(`${prefix}-${String(number).padStart(6, "0")}`, { collection, tags: { number: String(number % 100) }, state: number % 10 ? "Enabled" : "Disabled" });
  });
}

/** Texts that become markup or script where they are inserted as HTML. */
export const HOSTILE = [
  `<img src=x onerror="document.title='owned'">`,
  `</script><script>document.title='owned'</script>`,
  `"><svg onload="document.title='owned'">`,
  `{{7*7}}\${7*7}<%= 7*7 %>`,
  `javascript:document.title='owned'`,
];
