// An AMQP broker that behaves like Service Bus: connections are anonymous, a token sent to $cbs
// authorises access to an entity, and published clients can receive the messages of a queue. It verifies
// signatures with Node's crypto module.
//
//   node broker.js KEY_NAME KEY [TLS_KEY_FILE TLS_CERTIFICATE_FILE]
//
// The first line of output contains its ports. The control port serves GET /state, and POST /drop and
// /detach, which close all connections or links as a broker does with idle ones.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const rhea = require('rhea');

const [keyName, key, tlsKey, tlsCertificate] = process.argv.slice(2);
const ENTITIES = ['orders', 'events/new', 'full', 'silent', 'later'];

const container = rhea.create_container({ id: 'broker', receiver_options: { autoaccept: false, credit_window: 100 } });
container.sasl_server_mechanisms.enable_anonymous();
const queues = new Map(ENTITIES.map((name) => [name, []]));
const received = [];
const open = new Set();
const links = new Set();
let connections = 0;
let tokens = 0;
let unanswered = 0;

// The reason why a token does not authorise an audience, or null.
function flaw(token, audience) {
  const form = /^SharedAccessSignature (.*)$/.exec(token);
  if (!form) return 'no SharedAccessSignature';
  const raw = Object.fromEntries(form[1].split('&').map((part) => [part.split('=')[0], part.slice(part.indexOf('=') + 1)]));
  // Form encoding: clients encode a space as + or as %20.
  const part = (name) => decodeURIComponent((raw[name] || '').replace(/\+/g, ' '));
  if (part('skn') !== keyName) return 'no such key';
  const signed = crypto.createHmac('sha256', key).update(`${raw.sr}\n${raw.se}`).digest('base64');
  if (signed !== part('sig')) return 'the signature is wrong';
  if (Number(raw.se) * 1000 <= Date.now()) return 'the token has expired';
  if (part('sr') !== audience) return 'the token is for something else';
  return null;
}

// Some clients name an entity by its full URL.
const entityOf = (address) => (
  address.includes('://') ? new URL(address.replace(/^\w+:/, 'http:')).pathname.slice(1) : address);

container.on('connection_open', ({ connection }) => {
  connections += 1;
  open.add(connection);
  connection.authorised = new Set();
});
for (const event of ['connection_close', 'disconnected']) {
  container.on(event, ({ connection }) => {
    open.delete(connection);
    links.forEach((link) => link.connection === connection && links.delete(link));
  });
}
container.on('receiver_close', ({ receiver }) => links.delete(receiver));

function refuse(link, condition, description) {
  link.close({ condition, description });
}

function check(connection, link, name) {
  const address = entityOf(name);
  if (!queues.has(address)) {
    refuse(link, 'amqp:not-found', `The messaging entity '${address}' could not be found.`);
  } else if (!connection.authorised.has(address)) {
    refuse(link, 'amqp:unauthorized-access', `Unauthorized access to '${address}'.`);
  } else {
    return true;
  }
  return false;
}

container.on('receiver_open', ({ connection, receiver }) => {
  const address = receiver.remote.attach.target.address;
  receiver.set_target({ address });
  receiver.set_source({ address: (receiver.remote.attach.source || {}).address || address });
  if (address !== '$cbs' && check(connection, receiver, address)) links.add(receiver);
});

container.on('sender_open', ({ connection, sender }) => {
  const address = sender.remote.attach.source.address;
  sender.set_source({ address });
  sender.set_target({ address: sender.remote.attach.target && sender.remote.attach.target.address });
  if (address === '$cbs') connection.cbs = sender;
  else check(connection, sender, address);
});

container.on('sendable', ({ sender }) => {
  const queue = queues.get(entityOf(sender.source.address)) || [];
  while (sender.sendable() && queue.length) sender.send(queue.shift());
});

container.on('message', ({ connection, receiver, delivery, message }) => {
  const address = entityOf(receiver.target.address);
  if (address === '$cbs') {
    delivery.accept();
    tokens += 1;
    const { name, operation } = message.application_properties;
    const wrong = operation === 'put-token' ? flaw(String(message.body), name) : 'no such operation';
    if (!wrong) connection.authorised.add(entityOf(name));
    connection.cbs.send({
      correlation_id: message.message_id,
      application_properties: {
        'status-code': rhea.types.wrap_int(wrong ? 401 : 202),
        'status-description': wrong ? `InvalidToken: ${wrong}` : 'Accepted',
      },
      body: '',
    });
    return;
  }
  if (address === 'full') {
    delivery.reject({ condition: 'amqp:resource-limit-exceeded', description: 'The queue is full.' });
    return;
  }
  if (address === 'silent') {
    unanswered += 1;
    return;
  }
  delivery.accept();
  received.push({ ...message, entity: address, body: message.body.content.toString() });
  queues.get(address).push(message);
});
container.on('connection_error', () => {});
container.on('receiver_error', () => {});
container.on('session_error', () => {});
container.on('error', () => {});

const listening = (server) => new Promise((resolve) => server.on('listening', () => resolve(server.address().port)));
const plain = container.listen({ host: '127.0.0.1', port: 0 });
const tls = tlsKey && container.listen({
  host: '127.0.0.1', port: 0, transport: 'tls', key: fs.readFileSync(tlsKey), cert: fs.readFileSync(tlsCertificate),
});
const control = http.createServer((request, response) => {
  if (request.method === 'POST' && request.url === '/drop') open.forEach((connection) => connection.close());
  if (request.method === 'POST' && request.url === '/detach') {
    links.forEach((link) => refuse(link, 'amqp:link:detach-forced', 'The link was idle.'));
  }
  response.end(JSON.stringify({ connections, open: open.size, links: links.size, tokens, unanswered, received }));
}).listen(0, '127.0.0.1');

Promise.all([plain, tls, control].map((server) => server && listening(server))).then(([amqp, amqps, state]) => {
  console.log(JSON.stringify({ amqp, amqps, control: state }));
});
