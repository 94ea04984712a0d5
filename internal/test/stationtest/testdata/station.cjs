// A station with MQTT.js: node station.cjs FOLDER-OF-MODULES HOST:PORT CLIENT-ID PASSWORD.
// A line on stdin makes it publish a report of a minute ago, which it keeps too and publishes
// again behind the present state after the next connection. Each command, and that delivery,
// is a line on stdout.
const mqtt = require(process.argv[2] + '/mqtt');
const [, , , address, id, password] = process.argv;
const stem = 'stations/' + id.slice('station-'.length) + '/';
const began = process.hrtime.bigint();
const uptime = () => 5_000_000 + Number((process.hrtime.bigint() - began) / 1_000_000n);
const say = line => console.log(JSON.stringify(line));
const report = (age, door) => JSON.stringify({uptime: uptime() - age, locks: [{lockId: 'lock-1', status: 'locked', door}]});

const client = mqtt.connect('mqtt://' + address, {clientId: id, username: id, password, reconnectPeriod: 50, connectTimeout: 2000});
let kept;
client.on('error', () => {});
client.on('connect', () => {
	client.publish(stem + 'report', report(0, 'closed'), {qos: 1});
	if (kept) client.publish(stem + 'report', kept, {qos: 1}, () => say({delivered: true}));
	client.subscribe(stem + 'command', {qos: 1, resubscribe: false});
});
client.on('message', (topic, payload) => {
	const command = JSON.parse(payload), now = uptime();
	const result = now > command.notAfter ? 'refused' : 'done';
	client.publish(stem + 'result', JSON.stringify({id: command.id, result, lockId: command.lockId}), {qos: 1});
	say({left: command.notAfter - now});
});
process.stdin.on('data', () => {
	kept = report(60_000, 'open');
	client.publish(stem + 'report', kept, {qos: 1});
	say({kept: true});
});
process.stdin.on('end', () => process.exit());
