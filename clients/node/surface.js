// Tests every operation of the published Node client against a running server.
//
//     surface.js URL PFX GROUP
'use strict';

const fs = require('fs');
const moment = require('moment');
const msRest = require('ms-rest');
const SchedulerManagementClient = require('azure-arm-scheduler');

const [url, pfx, group] = process.argv.slice(2);
const subscription = '6c55a6f0-6593-472f-9b3e-a51a9a757b40';
const client = new SchedulerManagementClient(
  new msRest.TokenCredentials('not checked'), subscription, url);
const { jobCollections, jobs } = client;
let passed = 0;
let failed = 0;

function check(what, found, ...rest) {
  const [expected] = rest.length > 0 ? rest : [true];
  if (JSON.stringify(found) === JSON.stringify(expected)) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`FAILED ${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
  }
}

const same = (found, expected) => String(found).toLowerCase() === expected.toLowerCase();

async function refusal(asked) {
  try {
    await asked;
  } catch (error) {
    return [error.statusCode, error.code, error.message];
  }
  return [];
}

const standard = (more) => ({
  location: 'West US',
  properties: {
    sku: { name: 'Standard' },
    state: 'Enabled',
    quota: { maxJobCount: 20, maxRecurrence: { frequency: 'Minute', interval: 5 } },
  },
  ...more,
});

const http = (more) => ({ type: 'Http', request: { uri: 'http://example.org/', method: 'GET', ...more } });
const job = (action, more) => ({ properties: { action, ...more } });
const put = (name, body) => jobs.createOrUpdate(group, 'Main', name, body);

async function collections() {
  const made = await jobCollections.createOrUpdate(group, 'Main', standard({ tags: { team: 'billing' } }));
  const prefix = `/subscriptions/${subscription}/resourceGroups/${group}/providers`;
  check('id', made.id, `${prefix}/Microsoft.Scheduler/jobCollections/Main`);
  check('type', made.type, 'Microsoft.Scheduler/jobCollections');
  check('tags', made.tags, { team: 'billing' });
  check('sku', same(made.properties.sku.name, 'Standard'));
  check('state', same(made.properties.state, 'Enabled'));
  check('quota', made.properties.quota.maxJobCount, 20);
  check('frequency', same(made.properties.quota.maxRecurrence.frequency, 'Minute'));
  await jobCollections.createOrUpdate(group, 'another', standard());
  const got = await jobCollections.get(group, 'MAIN');
  check('got without regard to case', got.id, made.id);
  const patched = await jobCollections.patch(group, 'Main', { tags: { team: 'ops' } });
  check('patched', [patched.tags, patched.properties.quota.maxJobCount], [{ team: 'ops' }, 20]);
  const inGroup = await jobCollections.listByResourceGroup(group);
  check('listed by group', inGroup.map((one) => one.name), ['another', 'Main']);
  const all = await jobCollections.listBySubscription();
  check('listed by subscription', all.some((one) => one.id === made.id));
  await jobCollections.disable(group, 'Main');
  check('disabled', same((await jobCollections.get(group, 'Main')).properties.state, 'Disabled'));
  await jobCollections.enable(group, 'Main');
  check('enabled', same((await jobCollections.get(group, 'Main')).properties.state, 'Enabled'));
  await jobCollections.deleteMethod(group, 'another');
  check('deleted', (await refusal(jobCollections.get(group, 'another'))).slice(0, 2), [404, 'ResourceNotFound']);
}

async function schedules() {
  const start = new Date(Date.now() + 40 * 86400000);
  const schedule = {
    hours: [5, 17],
    minutes: [15, 45],
    monthlyOccurrences: [{ day: 'Friday', occurrence: -1 }, { day: 'Monday', occurrence: 1 }],
  };
  const recurrence = { frequency: 'Month', interval: 2, count: 100, schedule };
  const made = await put('monthly', job(http(), { startTime: start, recurrence }));
  check('name', made.name, 'Main/monthly');
  check('start', made.properties.startTime, start);
  check('frequency', same(made.properties.recurrence.frequency, 'Month'));
  check('interval', [made.properties.recurrence.interval, made.properties.recurrence.count], [2, 100]);
  check('hours', made.properties.recurrence.schedule.hours, [5, 17]);
  check('next', made.properties.status.nextExecutionTime > start);
  check('counters', made.properties.status.executionCount, 0);
  const week = { frequency: 'Week', schedule: { weekDays: ['Monday', 'Sunday'], hours: [3] } };
  const weekly = await put('weekly', job(http(), { recurrence: week, state: 'Disabled' }));
  check('weekdays', weekly.properties.recurrence.schedule.weekDays.map((day) => day.toLowerCase()), ['monday', 'sunday']);
  check('a disabled job has no status', weekly.properties.status, undefined);
}

async function actions() {
  const found = async (name, action) => {
    const made = await put(name, job(action));
    const got = await jobs.get(group, 'Main', name);
    check(`${name} comes back`, got, made);
    return got.properties.action;
  };
  const plain = await found('plain', {
    ...http({ method: 'POST', body: 'hello', headers: { 'ConTent-tYPe': 'text/plain' } }),
    retryPolicy: { retryType: 'Fixed', retryInterval: moment.duration(1, 'minute'), retryCount: 3 },
    errorAction: {
      type: 'StorageQueue',
      queueMessage: { storageAccount: 'account', queueName: 'queue1', sasToken: 'token', message: 'it failed' },
    },
  });
  check('headers as sent', plain.request.headers, { 'ConTent-tYPe': 'text/plain' });
  check('retries', [plain.retryPolicy.retryCount, same(plain.retryPolicy.retryType, 'Fixed')], [3, true]);
  check('time between', plain.retryPolicy.retryInterval.asSeconds(), 60);
  check('error action', plain.errorAction.queueMessage.message, 'it failed');
  check('its token is not shown', plain.errorAction.queueMessage.sasToken, undefined);

  const basic = await found('basic', http({ authentication: { type: 'Basic', username: 'user', password: 'secret' } }));
  check('basic', basic.request.authentication, { type: 'Basic', username: 'user' });
  const oauth = await found('oauth', http({
    authentication: {
      type: 'ActiveDirectoryOAuth', secret: 'secret', tenant: 'contoso.com', audience: 'https://example.org/', clientId: 'app',
    },
  }));
  check('oauth', oauth.request.authentication, {
    type: 'ActiveDirectoryOAuth', tenant: 'contoso.com', audience: 'https://example.org/', clientId: 'app',
  });
  const certificate = await found('certificate', http({
    authentication: { type: 'ClientCertificate', pfx: fs.readFileSync(pfx).toString('base64'), password: 'secret' },
  }));
  check('certificate', certificate.request.authentication.type, 'ClientCertificate');
  check('thumbprint', certificate.request.authentication.certificateThumbprint.length, 40);
  check('expiration', certificate.request.authentication.certificateExpirationDate instanceof Date);
  check('file is not shown', certificate.request.authentication.pfx, undefined);

  const queue = await found('queue', {
    type: 'StorageQueue',
    queueMessage: { storageAccount: 'account', queueName: 'queue1', sasToken: 'token', message: 'hello' },
  });
  check('queue', queue.queueMessage, { storageAccount: 'account', queueName: 'queue1', message: 'hello' });
  const message = {
    namespace: 'namespace1',
    message: 'hello',
    transportType: 'NetMessaging',
    authentication: { type: 'SharedAccessKey', sasKeyName: 'RootManageSharedAccessKey', sasKey: 'key' },
    brokeredMessageProperties: { label: 'label', timeToLive: moment.duration(2, 'hours') },
    customMessageProperties: { a: 'b' },
  };
  for (const [type, member, more] of [
    ['ServiceBusQueue', 'serviceBusQueueMessage', { queueName: 'queue1' }],
    ['ServiceBusTopic', 'serviceBusTopicMessage', { topicPath: 'topic1' }],
  ]) {
    const action = await found(type, { type, [member]: { ...message, ...more } });
    const [name] = Object.keys(more);
    check(`${type} target`, action[member][name], more[name]);
    check(`${type} label`, action[member].brokeredMessageProperties.label, 'label');
    check(`${type} custom`, action[member].customMessageProperties, { a: 'b' });
    check(`${type} key is not shown`, action[member].authentication.sasKey, undefined);
    check(`${type} key name`, action[member].authentication.sasKeyName, 'RootManageSharedAccessKey');
  }
}

async function everythingElse() {
  const names = (await jobs.list(group, 'Main')).map((one) => one.name);
  check('listed', names.length, 9);
  check('the first three', (await jobs.list(group, 'Main', { top: 3 })).map((one) => one.name), names.slice(0, 3));
  check('three after two', (await jobs.list(group, 'Main', { top: 3, skip: 2 })).map((one) => one.name), names.slice(2, 5));
  const off = await jobs.list(group, 'Main', { filter: 'state eq Disabled' });
  check('the disabled', off.map((one) => one.name), ['Main/weekly']);
  const on = await jobs.list(group, 'Main', { filter: "state eq 'Enabled'" });
  check('the enabled', on.length, 8);
  const patched = await jobs.patch(group, 'Main', 'plain', { properties: { state: 'Disabled' } });
  check('patched', [same(patched.properties.state, 'Disabled'), patched.properties.action.request.body], [true, 'hello']);
  check('run', await jobs.run(group, 'Main', 'weekly'), null);
  check('history', (await jobs.listJobHistory(group, 'Main', 'monthly', { top: 5 })).length, 0);
  const failures = await jobs.listJobHistory(group, 'Main', 'monthly', { filter: "status eq 'Failed'" });
  check('history of failures', failures.length, 0);
  await jobs.deleteMethod(group, 'Main', 'plain');
  const [status, code, message] = await refusal(jobs.get(group, 'Main', 'plain'));
  check('deleted', [status, code, message], [404, 'NotFound', "Job 'plain' cannot be found."]);
  const often = { recurrence: { frequency: 'Minute', interval: 1 } };
  check('above the quota', (await refusal(put('often', job(http(), often)))).slice(0, 2), [409, 'Conflict']);
  const bad = { recurrence: { frequency: 'Day', schedule: { hours: [24] } } };
  const [badStatus, badCode, badMessage] = await refusal(put('bad', job(http(), bad)));
  check('no such hour', [badStatus, badCode], [400, 'BadRequest']);
  check('names it', badMessage.includes('properties.recurrence.schedule.hours'));
  await jobCollections.deleteMethod(group, 'Main');
  check('nothing is left', (await jobCollections.listByResourceGroup(group)).length, 0);
}

(async () => {
  await collections();
  await schedules();
  await actions();
  await everythingElse();
})().catch((error) => {
  failed += 1;
  console.log('FAILED', error);
}).then(() => {
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
