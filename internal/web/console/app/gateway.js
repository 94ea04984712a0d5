// Gateway: what is wrong and what to do about it; clock, certificate, backup, restart.

import { get, open, post, sentence } from './api.js';
import { Ask, Block, Load, Pairs, inZone } from './parts.js';
import { Action, Age, Badge, Field, Form, Title, announce, html, useState } from './ui.js';

const severities = { fatal: ['bad', 'No door opens'], warning: ['warn', 'Warning'], notice: ['', 'Notice'] };

function bytes(n) {
	const units = ['B', 'KB', 'MB', 'GB'];
	while (n >= 1000 && units.length > 1) {
		n /= 1024;
		units.shift();
	}
	return `${n < 10 && units[0] !== 'B' ? n.toFixed(1) : Math.round(n)} ${units[0]}`;
}

const State = ({ good, text }) => html`<${Badge} tone=${good ? 'ok' : 'warn'}>${good ? text : 'Not ' + text.toLowerCase()}<//>`;

function Conditions({ ready, conditions }) {
	return html`<p><${Badge} tone=${ready ? 'ok' : 'bad'}>${ready ? 'Ready' : 'Not ready'}<//>
			${' '}${ready ? 'Doors can be opened.' : 'No door can be opened.'} ${conditions.length === 0 && 'Nothing is wrong.'}</p>
		${conditions.map(({ code, severity, summary, advice, since }) => {
			const [tone, word] = severities[severity];
			return html`<section key=${code} class=${'card tinted ' + tone}>
				<p><${Badge} tone=${tone}>${word}<//> <${Age} at=${since} /></p>
				<p><strong>${sentence(summary)}</strong></p>
				<p>${sentence(advice)}</p>
			</section>`;
		})}`;
}

/** What an administrator can do about the clock. */
const remedies = {
	accept: ['Accept the system’s time', 'The gateway then trusts it until it is restarted.'],
	reset: ['Set the clock back', 'A wrong time has raised the gateway’s clock; this lowers it to the system’s time.'],
};

function Clock({ clock, timeZone, conditions, change }) {
	const which = conditions.some(({ code }) => code === 'clock-ahead') ? 'reset' : 'accept';
	const [title, text] = remedies[which];
	const time = (at) => inZone(timeZone, at);
	return html`<${Block} title="Clock" side=${html`<${State} good=${clock.trusted} text="Trusted" />`}>
		<${Pairs} of=${{ Time: time(clock.now), 'Time zone': timeZone || 'that of its system' }} />
		${!clock.trusted && html`<${Ask} button=${title} submit=${title} act=${() => change(post('/admin/v1/clock/' + which))}>
			<p>Compare the system’s time with a watch first. ${text} The journal records it.</p>
			<${Load} paths=${['clock']}>${({ system, now }) => html`<${Pairs} of=${{ System: time(system), Gateway: time(now), 'This device': time(Date.now()) }} />`}<//>
		<//>`}
	<//>`;
}

function Cloud({ cloud, timeZone }) {
	if (!cloud) return null;
	const when = (at) => at && inZone(timeZone, at);
	return html`<${Block} title="Cloud" side=${html`<${State} good=${cloud.connected} text="Connected" />`}>
		<${Pairs} of=${{
			Address: cloud.url, Since: when(cloud.since), Why: cloud.error, 'What to do': cloud.advice, 'Next try': when(cloud.nextTry),
			Waiting: `${cloud.waiting} records`, 'Last delivery': when(cloud.lastDelivery),
		}} />
	<//>`;
}

function Certificate({ certificate, timeZone }) {
	if (!certificate) return null;
	const { own, names, notAfter, fingerprint, authorityFingerprint } = certificate;
	const code = (text) => text && html`<code>${text}</code>`;
	return html`<${Block} title="Certificate">
		<${Pairs} of=${{
			From: own ? 'the gateway itself' : 'the configuration', Names: names.join(', '), 'Valid until': inZone(timeZone, notAfter),
			Fingerprint: code(fingerprint), Authority: code(authorityFingerprint),
		}} />
		<a class="button" href="/trust">Trust this gateway on another device</a>
	<//>`;
}

/** Storage shows what the gateway holds, and checks what is on its disk. */
function Storage({ journal, memory, data }) {
	const [result, setResult] = useState('');
	const check = async () => {
		const patience = 30 * 60_000;
		const { sound, records, broken, why } = await get('/admin/v1/journal/verify', { patience });
		const { size, log, damage } = await get('/admin/v1/database', { patience });
		setResult(`The journal is ${sound ? `sound: ${records} records` : `not sound: record ${broken}, ${why}`}. ` +
			`The database (${bytes(size + log)}) is ${damage ? `damaged: ${damage}` : 'sound'}.`);
		announce('The check has ended.');
	};
	return html`<${Block} title="Disk and memory">
		<${Pairs} of=${{
			Journal: `${journal.records} records, ${bytes(journal.bytes)}`,
			Memory: memory.used && `${bytes(memory.used)} of ${bytes(memory.limit)}`, Folder: html`<code>${data}</code>`,
		}} />
		<${Action} act=${check}>Check the disk<//>
		${result && html`<p class="notice">${result}</p>`}
	<//>`;
}

const Passphrase = (props) => html`<${Field} type="password" required autocomplete="new-password" ...${props} />`;

function Backup() {
	const [taken, setTaken] = useState(false);
	const take = async ({ passphrase, again }) => {
		setTaken(false);
		if (passphrase !== again) throw new Error('The passphrases differ');
		const response = await open('POST', '/admin/v1/backup', { body: { passphrase } });
		const link = document.createElement('a');
		link.href = URL.createObjectURL(await response.blob());
		link.download = `gatehouse-${new Date().toISOString().slice(0, 10)}.backup`;
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
		setTaken(true);
	};
	return html`<${Block} title="Backup">
		<p>One encrypted file: a blank board that restores it is the same gateway.</p>
		<details>
			<summary>Take a backup</summary>
			<${Form} submit="Save the backup" onSubmit=${take}>
				<${Passphrase} label="Passphrase" name="passphrase" hint="Several words. Nobody can read the backup without them." />
				<${Passphrase} label="The passphrase again" name="again" />
			<//>
			${taken && html`<p role="status" class="notice">The backup is among the downloads of this device.</p>`}
		</details>
	<//>`;
}

function Restart() {
	return html`<${Block} title="Restart">
		<p>For some seconds no door can be opened over the gateway.</p>
		<${Ask} button="Restart the gateway" kind="danger" title="Restart the gateway?" submit="Restart" act=${() => post('/admin/v1/restart')}>
			<p>Its service starts it again. This page says when it is back.</p>
		<//>
	<//>`;
}

function About({ name, version, gatewayId, started, stations, accounts, sessions, listeners, timeZone }) {
	return html`<${Block} title="This gateway">
		<${Pairs} of=${{
			Name: name, Version: version, Id: html`<code>${gatewayId}</code>`, 'Running since': inZone(timeZone, started),
			Stations: `${stations.online} of ${stations.enrolled} online`, Accounts: accounts, Sessions: sessions,
			Addresses: listeners.map(({ name, address }) => html`<div key=${name + address}>${name} ${address}</div>`),
		}} />
	<//>`;
}

export default function Gateway() {
	return html`<${Title}>Gateway<//>
		<${Load} paths=${['status']} every="10">${(status, change) => html`<${Conditions} ...${status} />
			<div class="sections">
				<${Clock} ...${status} change=${change} />
				<${Certificate} ...${status} /><${Cloud} ...${status} /><${Storage} ...${status} />
				<${Backup} /><${Restart} /><${About} ...${status} />
			</div>`}
		<//>`;
}
