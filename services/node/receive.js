// Receives one message from a queue of an standard AMQP broker and prints it as JSON.
//
//   node receive.js PORT USER PASSWORD ADDRESS
'use strict';

const rhea = require('rhea');

const [port, username, password, address] = process.argv.slice(2);
const connection = rhea.connect({ host: '127.0.0.1', port: Number(port), username, password, reconnect: false });
connection.open_receiver(address);
rhea.on('message', ({ message }) => {
  console.log(JSON.stringify({ ...message, body: message.body.content.toString() }));
  connection.close();
});
for (const event of ['connection_error', 'receiver_error', 'disconnected']) {
  rhea.on(event, (context) => {
    const error = context.error || (context.receiver && context.receiver.error);
    if (error) {
      console.error(String(error));
      process.exit(1);
    }
  });
}
