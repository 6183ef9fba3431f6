// The jobs of an invented company, for screenshots: eleven collections, 123 jobs, and the target that they call.

import { createServer } from "node:http";

/**
 * [name, cron, zone, description, behaviour]. Behaviour: milliseconds, failing share, hours (UTC) in which it always
 * fails, note if disabled.
 */
const COLLECTIONS = {
  billing: [
    ["invoice-export", "30 2 * * *", "Europe/Berlin", "Sends the invoices of the day to the accounting system", { takes: 900 }],
    ["dunning-letters", "0 7 * * 1-5", "Europe/Berlin", "Reminds customers of unpaid invoices"],
    ["tax-rates", "10 4 * * *", "UTC", "Downloads the VAT rates of all countries"],
    ["exchange-rates", "0 * * * *", "Europe/Berlin", "Reads the reference rates of the central bank"],
    ["subscription-renewals", "*/20 * * * *", "UTC", "Renews subscriptions that end within the hour", { takes: 250 }],
    ["credit-notes", "40 3 * * *", "Europe/Berlin", "Books credit notes of the day before"],
    ["ledger-close", "0 23 28-31 * *", "Europe/Berlin", "Closes the ledger of the month"],
    ["revenue-report", "0 6 * * *", "America/New_York", "Mails the revenue of the day before"],
    ["usage-metering", "*/10 * * * *", "UTC", "Adds up metered usage", { takes: 60 }],
    ["price-list-import", "10 */2 * * *", "Europe/Berlin", "Imports the price list of the wholesaler", { fails: 1 }],
    ["archive-invoices", "0 4 * * 0", "Europe/Berlin", "Moves invoices older than a year to the archive"],
    ["statement-mails", "0 8 1 * *", "America/Chicago", "Mails account statements"],
    ["datev-export", "30 5 * * *", "Europe/Berlin", "Export for the tax adviser", { off: "Replaced by invoice-export; delete after the audit" }],
  ],
  compliance: [
    ["access-review", "0 8 1 * *", "Europe/Zurich", "Asks managers to review access"],
    ["audit-export", "0 1 * * *", "Europe/Zurich", "Exports the audit log", { takes: 600 }],
    ["sanctions-list", "0 */6 * * *", "UTC", "Downloads sanctions lists", { takes: 450 }],
    ["screening", "30 */2 * * *", "UTC", "Screens new customers", { takes: 380 }],
    ["retention-mail", "0 3 * * *", "Europe/Zurich", "Deletes mail after its retention"],
    ["retention-logs", "20 3 * * *", "Europe/Zurich", "Deletes logs after their retention"],
    ["kyc-reminders", "0 9 * * 1-5", "Europe/London", "Reminds customers of documents"],
    ["transaction-report", "0 23 * * *", "Europe/Zurich", "Report for the regulator", { takes: 1900 }],
    ["policy-acknowledgement", "0 10 * * 2", "Europe/Zurich", "Reminds employees of policies"],
    ["consent-log", "*/30 6-22 * * *", "UTC", "Archives consents", { takes: 110 }],
    ["data-subject-requests", "0 * * * *", "UTC", "Works through requests of persons"],
    ["encryption-check", "0 4 * * *", "UTC", "Checks that disks are encrypted"],
    ["vendor-review", "0 9 15 * *", "Europe/Zurich", "Asks for reviews of vendors"],
    ["backup-report", "0 7 * * *", "UTC", "Report of backups"],
    ["training-reminders", "0 9 * * 3", "Europe/Zurich", "Reminds employees of courses"],
    ["incident-digest", "0 17 * * 1-5", "Europe/Zurich", "Incidents of the day"],
    ["whistleblower-inbox", "*/20 8-17 * * 1-5", "Europe/Zurich", "Checks the inbox", { takes: 75 }],
    ["quarter-report", "0 6 1 1,4,7,10 *", "Europe/Zurich", "Report of the quarter"],
  ],
  "crm-sync": [
    ["accounts-full", "0 1 * * 0", "America/New_York", "Copies all accounts", { takes: 2400 }],
    ["accounts-delta", "*/10 7-20 * * 1-5", "America/New_York", "Copies accounts that changed", { takes: 350 }],
    ["contacts-delta", "*/10 7-20 * * 1-5", "America/New_York", "Copies contacts that changed", { takes: 300 }],
    ["leads-inbound", "*/10 * * * *", "America/New_York", "Creates leads of forms on the website", { takes: 90 }],
    ["opportunities", "*/20 7-20 * * 1-5", "America/New_York", "Copies opportunities", { fails: 0.1 }],
    ["owner-assignment", "0 * * * *", "America/New_York", "Assigns accounts without an owner"],
    ["duplicates", "0 3 * * *", "America/New_York", "Finds duplicate contacts", { takes: 1800 }],
    ["call-recordings", "30 * * * *", "America/New_York", "Links call recordings to contacts", { fails: 0.2, takes: 500 }],
    ["quotes", "*/30 7-20 * * 1-5", "America/New_York", "Copies quotes that were accepted"],
    ["support-tickets", "*/10 7-19 * * 1-5", "Europe/London", "Shows open tickets on accounts", { takes: 200 }],
    ["health-score", "0 6 * * *", "America/New_York", "Computes the health score of each customer"],
    ["renewal-reminders", "0 9 * * 1-5", "America/New_York", "Reminds owners of renewals"],
    ["territory-report", "0 7 * * 1", "America/Los_Angeles", "Report by territory"],
    ["geo-coding", "0 * * * *", "UTC", "Adds coordinates to addresses", { fails: 1, retry: true }],
    ["webhooks-check", "0 */6 * * *", "UTC", "Checks that webhooks are registered"],
    ["field-mapping", "0 0 * * *", "UTC", "Compares field definitions of both systems"],
    ["legacy-import", "0 2 * * *", "America/New_York", "Import from the system of before", { off: "Migration finished in September" }],
    ["gdpr-erasure", "0 22 * * *", "Europe/Berlin", "Erases contacts on request"],
  ],
  "data-platform": [
    ["warehouse-load", "0 2 * * *", "Europe/Berlin", "Loads the warehouse", { takes: 3200 }],
    ["orders-aggregate", "0 * * * *", "UTC", "Aggregates orders by hour", { takes: 700 }],
    ["events-compaction", "*/30 * * * *", "UTC", "Compacts event files", { takes: 1500 }],
    ["feature-store", "*/20 * * * *", "UTC", "Refreshes features of the models", { takes: 600 }],
    ["churn-model", "0 2 * * *", "Europe/Berlin", "Trains the churn model", { takes: 2800 }],
    ["demand-forecast", "0 2 * * *", "Europe/Berlin", "Forecast of demand by product", { takes: 2600 }],
    ["recommendations", "0 2 * * *", "Europe/Berlin", "Recommendations for each customer", { takes: 2100 }],
    ["search-index", "0 2 * * *", "Europe/Berlin", "Builds the search index", { takes: 1900 }],
    ["image-embeddings", "0 2 * * *", "Europe/Berlin", "Embeddings of new images", { takes: 1700, fails: 0.5 }],
    ["dashboards-refresh", "*/20 6-20 * * *", "UTC", "Refreshes dashboards", { takes: 450 }],
    ["schema-drift", "0 5 * * *", "UTC", "Finds columns that changed their type"],
    ["freshness-checks", "*/10 * * * *", "UTC", "Checks the age of each table", { takes: 80 }],
    ["backup-verify", "0 4 * * 6", "UTC", "Restores a backup and counts its rows"],
    ["cost-report", "0 7 * * 1", "Europe/Berlin", "Costs of queries by team"],
    ["partition-expiry", "0 3 * * *", "UTC", "Drops partitions after their retention"],
    ["clickstream-import", "*/10 * * * *", "UTC", "Imports clicks", { takes: 150, fails: 0.03 }],
    ["weather-import", "20 * * * *", "UTC", "Reads the weather of all stores"],
    ["holiday-calendar", "0 0 1 * *", "UTC", "Public holidays of the next year"],
    ["ab-test-results", "0 6 * * *", "UTC", "Results of running experiments"],
    ["old-warehouse-load", "0 3 * * *", "Europe/Berlin", "Loads the warehouse of before", { off: "Waiting for the finance team to confirm the new numbers" }],
  ],
  "internal-tools": [
    ["standup-reminder", "40 8 * * 1-5", "Europe/Berlin", "Posts the stand-up reminder"],
    ["on-call-handover", "0 9 * * 1", "Europe/Berlin", "Announces who is on call"],
    ["ldap-sync", "*/20 6-20 * * 1-5", "Europe/Berlin", "Copies groups of the directory", { takes: 220 }],
    ["license-usage", "0 1 * * *", "UTC", "Counts licences in use"],
    ["backup-config", "0 3 * * *", "UTC", "Saves the configuration of switches", { fails: 0.3 }],
    ["office-lights", "0 20 * * *", "Europe/Berlin", "Turns the lights off"],
    ["lunch-menu", "0 10 * * 1-5", "Europe/Berlin", "Posts the menu of the canteen"],
    ["wiki-backup", "0 2 * * *", "Europe/Berlin", "Backup of the wiki", { takes: 800 }],
    ["git-mirror", "*/10 7-20 * * 1-5", "UTC", "Mirrors repositories", { takes: 330 }],
    ["dependency-updates", "0 4 * * 1", "UTC", "Opens pull requests with updates"],
    ["log-rotation-audit", "0 0 * * *", "UTC", "Checks that logs are rotated"],
    ["status-page", "*/10 * * * *", "UTC", "Updates the status page", { takes: 70 }],
    ["laptop-inventory", "0 12 * * 3", "Europe/Berlin", "Inventory of laptops"],
    ["printer-supplies", "0 7 * * 1-5", "Europe/Berlin", "Orders toner"],
    ["room-bookings", "*/20 7-19 * * 1-5", "Europe/Berlin", "Releases rooms that nobody uses"],
    ["expense-export", "0 18 * * 5", "Europe/Berlin", "Exports expenses", { off: "Vendor changes its API until 1 December" }],
  ],
  "legacy-erp": [
    ["nightly-batch", "0 1 * * *", "Europe/Berlin", "Batch run of the old ERP system"],
    ["article-master", "0 4 * * *", "Europe/Berlin", "Copies article master data"],
    ["cost-centers", "0 5 * * 1", "Europe/Berlin", "Copies cost centers"],
  ],
  logistics: [
    ["stock-sync", "*/10 6-22 * * *", "Europe/Berlin", "Copies stock levels of all warehouses", { takes: 240 }],
    ["order-export", "*/10 6-22 * * *", "Europe/Berlin", "Sends orders to the warehouse", { takes: 180, fails: 0.02 }],
    ["shipping-labels", "*/10 6-18 * * 1-6", "Europe/Berlin", "Orders shipping labels", { takes: 280, fails: 0.05, outage: [12, 14] }],
    ["parcel-tracking", "*/20 6-22 * * *", "Europe/Berlin", "Reads the state of parcels", { takes: 520, outage: [12, 14] }],
    ["returns", "0 * * * *", "Europe/Berlin", "Books returned parcels"],
    ["stock-alerts", "*/20 6-20 * * *", "Europe/Berlin", "Warns of products that sell out"],
  ],
  marketing: [
    ["newsletter-segments", "0 5 * * 2", "Europe/Berlin", "Builds the segments of the newsletter"],
    ["unsubscribes", "*/20 6-22 * * *", "UTC", "Removes contacts who unsubscribed"],
    ["abandoned-carts", "*/30 9-22 * * *", "Europe/Berlin", "Reminds customers of their cart"],
    ["campaign-start", "0 6 * * 1", "Europe/Berlin", "Starts the campaign of the week"],
    ["campaign-end", "50 23 * * 0", "Europe/Berlin", "Ends the campaign of the week"],
    ["coupon-expiry", "0 0 * * *", "Europe/Berlin", "Ends coupons"],
    ["flash-sale", "0 18 * * 5", "Europe/Berlin", "Starts the flash sale"],
    ["gift-cards", "0 8 * * *", "Europe/Berlin", "Mails gift cards of the day"],
  ],
  payments: [
    ["card-settlement", "*/30 * * * *", "UTC", "Settles card payments with the acquirer", { takes: 400 }],
    ["fraud-scores", "*/10 * * * *", "UTC", "Scores orders of the last ten minutes", { takes: 120 }],
    ["payment-reconciliation", "0 */2 * * *", "Europe/Berlin", "Matches bank statements with open invoices", { takes: 1300, fails: 0.15 }],
    ["payout-merchants", "0 10 * * 1-5", "Europe/London", "Pays merchants of the marketplace"],
    ["refund-retries", "*/20 8-20 * * *", "UTC", "Tries failed refunds again", { takes: 180 }],
    ["chargeback-sync", "10 * * * *", "UTC", "Reads chargebacks from the acquirer"],
    ["sepa-mandates", "20 5 * * 1", "Europe/Berlin", "Checks mandates that expire"],
  ],
  security: [
    ["certificate-check", "0 6 * * *", "UTC", "Warns of certificates that expire"],
    ["container-scan", "0 5 * * *", "UTC", "Scans images for vulnerabilities", { takes: 1600 }],
    ["vpn-users", "0 */4 * * *", "UTC", "Removes users who left"],
    ["door-badges", "30 5 * * *", "Europe/Berlin", "Copies badges to the doors"],
    ["key-rotation", "0 2 1 * *", "UTC", "Rotates keys"],
    ["penetration-test", "0 22 1 1,7 *", "UTC", "Starts the penetration test"],
  ],
  webshop: [
    ["sitemap", "0 4 * * *", "UTC", "Writes the sitemap", { takes: 1100 }],
    ["product-feed", "0 */3 * * *", "UTC", "Product feed of marketplaces", { takes: 900 }],
    ["reviews-import", "20 * * * *", "UTC", "Imports reviews"],
    ["price-updates", "*/20 6-20 * * *", "Europe/Berlin", "Applies price changes", { takes: 130 }],
    ["image-resize", "*/10 8-18 * * 1-5", "UTC", "Resizes new product images", { takes: 700 }],
    ["search-warmup", "30 5 * * *", "Europe/Berlin", "Warms the search cache"],
    ["seo-check", "0 3 * * 1", "UTC", "Finds broken links"],
    ["old-feed", "0 */6 * * *", "UTC", "Product feed, version 1", { off: "No partner reads it since May" }],
  ],
};

/** Quotas of collections: the number of jobs. */
const QUOTAS = { compliance: 20, payments: 50, webshop: 100 };
/** Disabled collections, and why. */
const DISABLED = { "legacy-erp": "Shut down with the old ERP system; kept for the auditors until March" };

/** The name of the host that a collection calls. */
function host(collection) {
  return `${collection}.internal`;
}

/** Names of all hosts. */
export const HOSTS = Object.keys(COLLECTIONS).map(host);

function behaviour(collection, name) {
  const entry = COLLECTIONS[collection]?.find(([other]) => other === name);
  return { takes: 40, fails: 0, outage: [0, 0], retry: false, ...entry?.[4] };
}

/** Numbers between 0 and 1, the same in every run. */
function sequence(seed) {
  return () => {
    seed = (seed * 1664525 + 1013904223) % 4294967296;
    return seed / 4294967296;
  };
}

/** Ports of the target; the first that is free. URLs without a port are easier to read. */
const PORTS = [80, 8080, 0];

async function listen(server, ports) {
  for (const port of ports) {
    const error = await new Promise((resolve) => server.once("error", resolve).listen(port, "127.0.0.1", resolve));
    if (!error) return;
  }
  throw new Error(`no port of ${ports} is free`);
}

/** Starts the target of all jobs: `http://{collection}.internal/{job}`. */
export async function startTarget(port) {
  const random = sequence(11);
  let open = 0;
  let last = 0;
  let hasRetries = false;
  let held = [];
  const server = createServer((request, response) => {
    const [, job, part] = new URL(request.url, "http://target").pathname.split("/");
    const collection = request.headers.host.split(".")[0];
    request.resume();
    open += 1;
    response.once("close", () => {
      open -= 1;
      last = Date.now();
    });
    const { takes, fails, outage, retry } = behaviour(collection, job);
    // The scheduled time: the clock of the server is not that of the target.
    const hour = new Date(request.headers["x-ms-scheduler-expected-execution-time"] ?? 0).getUTCHours();
    const isOutage = hour >= outage[0] && hour < outage[1];
    const failed = !part && (random() < fails || isOutage);
    if (held.includes(job)) return;
    hasRetries ||= failed && retry;
    const body = failed
      ? { error: { code: "UpstreamUnavailable", message: `The partner's service did not respond in time`, reference: Math.floor(random() * 1e9).toString(36) } }
      : { status: "done", records: Math.floor(random() * 9000), durationSeconds: Math.round(takes) / 100 };
    // Its clock is not that of the server.
    response.sendDate = false;
    setTimeout(() => {
      response.writeHead(failed ? 503 : 200, { "Content-Type": "application/json", Server: "gateway", ...(failed && { "X-Upstream": "timeout" }) });
      response.end(JSON.stringify(body));
    }, part ? 30 : takes * (0.6 + random() * 0.8));
  });
  await listen(server, port === undefined ? PORTS : [port]);
  return {
    port: server.address().port,
    stop: () => server.closeAllConnections() ?? server.close(),
    /** From now on, requests of these jobs get no response. */
    hold: (jobs) => (held = jobs),
    /** Waits until requests have come and none has for some time. Returns whether a job will retry. */
    async settle() {
      hasRetries = false;
      const start = Date.now();
      const isQuiet = () => open === 0 && (last < start ? Date.now() - start > 3500 : Date.now() - last > 200);
      while (!isQuiet()) await new Promise((resolve) => setTimeout(resolve, 20));
      return hasRetries;
    },
  };
}

/** Creates the jobs on a server. */
export async function createJobs(server, port) {
  for (const [collection, jobs] of Object.entries(COLLECTIONS)) {
    const target = `http://${host(collection)}${port === 80 ? "" : `:${port}`}`;
    for (const [name, cron, timeZone, description, { off, retry } = {}] of jobs) {
      const request = { method: "POST", uri: `${target}/${name}`, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ source: "kalends", job: name }) };
      const action = { type: "Http", request, retryPolicy: { retryType: "None" } };
      if (retry) {
        action.retryPolicy = { retryType: "Fixed", retryInterval: "PT15S", retryCount: 2 };
        action.errorAction = { type: "Http", request: { method: "POST", uri: `${target}/${name}/alert` } };
      }
      const properties = { description, tags: { team: collection.split("-")[0] }, recurrence: { cron, timeZone }, action };
      const path = `/api/collections/${collection}/jobs/${name}`;
      await server.api("PUT", path, { properties });
      if (off) await server.api("PATCH", `${path}?note=${encodeURIComponent(off)}`, { properties: { state: "Disabled" } });
    }
    const path = `/api/collections/${collection}`;
    if (QUOTAS[collection]) await server.api("PATCH", path, { properties: { quota: { maxJobCount: QUOTAS[collection] } } });
    if (DISABLED[collection]) await server.api("POST", `${path}/disable?note=${encodeURIComponent(DISABLED[collection])}`);
  }
}
