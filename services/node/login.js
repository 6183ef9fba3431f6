// A token endpoint that checks the grant: one tenant, applications with their secrets.
//
//   node login.js TENANT APPLICATIONS [KEY CERTIFICATE]
//
// With the files of a key and a certificate it serves HTTPS.
// APPLICATIONS is JSON: {"client": {"secret": "…", "resource": "…", "life": 3600}}. The first line
// of output contains its ports. The control port returns the number of requests of each client.
'use strict';

const http = require('http');
const { OAuth2Server } = require('oauth2-mock-server');

const [tenant, list, key, certificate] = process.argv.slice(2);
const applications = JSON.parse(list);
const asked = {};

async function main() {
  const server = new OAuth2Server(key, certificate, { endpoints: { token: `/${tenant}/oauth2/token` } });
  await server.issuer.keys.generate('RS256');
  let issued = 0;
  server.service.on('beforeTokenSigning', (token, request) => {
    token.payload.aud = request.body.resource;
    token.payload.appid = request.body.client_id;
    token.payload.jti = String(issued += 1);
  });
  server.service.on('beforeResponse', (response, request) => {
    const { grant_type: grant, client_id: client, client_secret: secret, resource } = request.body;
    asked[client] = (asked[client] || 0) + 1;
    const application = applications[client];
    const refuse = (error, description) => {
      response.statusCode = 401;
      // A careless endpoint echoes the request.
      response.body = { error, error_description: `${description} (sent: ${secret})` };
    };
    if (grant !== 'client_credentials') return refuse('unsupported_grant_type', 'the grant is not known');
    if (!application || application.secret !== secret) return refuse('invalid_client', 'AADSTS7000215: Invalid client secret is provided.');
    if (application.resource !== resource) return refuse('invalid_resource', 'AADSTS500011: The resource was not found.');
    // The service wrote the number as a string at the time.
    response.body.expires_in = String(application.life);
    return undefined;
  });
  await server.start(0, '127.0.0.1');
  const control = http.createServer((request, response) => response.end(JSON.stringify(asked)));
  control.listen(0, '127.0.0.1', () => {
    console.log(JSON.stringify({ port: server.address().port, control: control.address().port }));
  });
}

main();
