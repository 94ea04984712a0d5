// Gateway: what is wrong and what to do about it; clock, certificate, backup, restart.

import { get, open, post, sentence } from './api.js';
import { everySecond, live } from './live.js';
import { Block, Confirm, Pairs, inZone, useFresh } from './parts.js';
import { Age, Badge, Field, Form, Problem, Title, announce, html, useEffect, useLink, useLoad, useState, useTask } from './ui.js';

const severities = { fatal: ['bad', 'No door opens'], warning: ['warn', 'Warning'], notice: ['plain', 'Notice'] };

function bytes(n) {
	const units = ['B', 'KB', 'MB', 'GB'];
	while (n >= 1000 && units.length > 1) {
		n /= 1024;
		units.shift();
	}
	return `${n < 10 && units[0] !== 'B' ? n.toFixed(1) : Math.round(n)} ${units[0]}`;
}

const State = ({ good, yes, no }) => html`<${Badge} tone=${good ? 'ok' : 'warn'}>${good ? yes : no}<//>`;

function Conditions({ status: { ready, conditions } }) {
	return html`<p class="headline"><${Badge} tone=${ready ? 'ok' : 'bad'}>${ready ? 'Ready' : 'Not ready'}<//>
			${ready ? 'Doors can be opened.' : 'No door can be opened.'} ${conditions.length === 0 && 'Nothing is wrong.'}</p>
		<ul class="conditions">
			${conditions.map(({ code, severity, summary, advice, since }) => {
				const [tone, word] = severities[severity];
				return html`<li key=${code} class=${'card condition ' + tone}>
					<p class="facts"><${Badge} tone=${tone}>${word}<//> <${Age} at=${since} /></p>
					<p><strong>${sentence(summary)}</strong></p>
					<p>${sentence(advice)}</p>
				</li>`;
			})}
		</ul>`;
}

/** What an administrator can do about the clock. */
const remedies = {
	accept: ['Accept the system’s time', 'The gateway then trusts it until it is restarted.', 'The system’s time is accepted.'],
	reset: ['Set the clock back', 'A wrong time has raised the gateway’s clock; this lowers it to the system’s time.', 'The clock is set back.'],
};

function ClockRemedy({ which, zone, close, changed }) {
	const [title, text, done] = remedies[which];
	const { value: clock, error } = useLoad((signal) => get('/admin/v1/clock', { signal }));
	const act = async () => {
		await post('/admin/v1/clock/' + which);
		await changed();
	};
	return html`<${Confirm} title=${title} submit=${title} act=${act} done=${done} close=${close}>
		<p>Compare the system’s time with a watch first. ${text} The journal records it.</p>
		<${Problem} text=${error} />
		${clock && html`<${Pairs} of=${{ System: inZone(zone, clock.system), Gateway: inZone(zone, clock.now), 'This device': inZone(zone, Date.now()) }} />`}
	<//>`;
}

function Clock({ status, changed }) {
	const [asking, ask] = useState('');
	const { clock, timeZone, conditions } = status;
	const which = conditions.some(({ code }) => code === 'clock-ahead') ? 'reset' : 'accept';
	return html`<${Block} title="Clock" side=${html`<${State} good=${clock.trusted} yes="Trusted" no="Not trusted" />`}>
		<${Pairs} of=${{ Time: inZone(timeZone, clock.now), 'Time zone': timeZone || 'that of its system' }} />
		${!clock.trusted && html`<button type="button" onClick=${() => ask(which)}>${remedies[which][0]}</button>`}
		${asking && html`<${ClockRemedy} which=${asking} zone=${timeZone} close=${() => ask('')} changed=${changed} />`}
	<//>`;
}

function Cloud({ cloud, zone }) {
	const when = (at) => at && inZone(zone, at);
	return html`<${Block} title="Cloud" side=${html`<${State} good=${cloud.connected} yes="Connected" no="Not connected" />`}>
		<${Pairs} of=${{
			Address: cloud.url, Since: when(cloud.since), Why: cloud.error, 'What to do': cloud.advice, 'Next try': when(cloud.nextTry),
			Waiting: `${cloud.waiting} records`, 'Last delivery': when(cloud.lastDelivery),
		}} />
	<//>`;
}

function Certificate({ certificate: c, zone }) {
	const print = (text) => text && html`<code>${text}</code>`;
	return html`<${Block} title="Certificate">
		<${Pairs} of=${{
			From: c.own ? 'the gateway itself' : 'the configuration', Names: c.names.join(', '), 'Valid until': inZone(zone, c.notAfter),
			Fingerprint: print(c.fingerprint), Authority: print(c.authorityFingerprint),
		}} />
		<a class="button" href="/trust">Trust this gateway on another device</a>
	<//>`;
}

/** Storage shows what the gateway holds, and checks what is on its disk. */
function Storage({ status: { journal, memory, data } }) {
	const [result, setResult] = useState(null);
	const [check, busy, error] = useTask(async () => {
		const patience = 30 * 60_000;
		const verdict = await get('/admin/v1/journal/verify', { patience });
		setResult({ verdict, database: await get('/admin/v1/database', { patience }) });
		announce('The check has ended.');
	});
	return html`<${Block} title="Disk and memory">
		<${Pairs} of=${{
			Journal: `${journal.records} records, ${bytes(journal.bytes)}`, Database: result && bytes(result.database.size + result.database.log),
			Memory: memory.used && `${bytes(memory.used)} of ${bytes(memory.limit)}`, Folder: html`<code>${data}</code>`,
		}} />
		<button type="button" onClick=${check} aria-disabled=${busy}>${busy ? 'Checking…' : 'Check the disk'}</button>
		<${Problem} text=${error} />
		${result && html`<p class="notice">
			${result.verdict.sound ? `The journal is sound: ${result.verdict.records} records.` : `The journal is not sound: record ${result.verdict.broken}, ${result.verdict.why}.`}
			${result.database.damage ? ` The database is damaged: ${result.database.damage}.` : ' The database is sound.'}
		</p>`}
	<//>`;
}

/** takeBackup has the browser save an encrypted backup. */
async function takeBackup({ passphrase, again }) {
	if (passphrase !== again) throw new Error('The passphrases differ');
	const response = await open('POST', '/admin/v1/backup', { body: { passphrase } });
	const link = document.createElement('a');
	link.href = URL.createObjectURL(await response.blob());
	link.download = `gatehouse-${new Date().toISOString().slice(0, 10)}.backup`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function Backup() {
	const [taken, setTaken] = useState(false);
	return html`<${Block} title="Backup">
		<p>One encrypted file: a blank board that restores it is the same gateway. Nobody can read it without the passphrase.</p>
		<details class="more">
			<summary>Take a backup</summary>
			<${Form} submit="Save the backup" busyText="Taking the backup…" onSubmit=${async (fields) => {
				setTaken(false);
				await takeBackup(fields);
				setTaken(true);
			}}>
				<${Field} label="Passphrase" name="passphrase" type="password" required autocomplete="new-password" hint="Several words. Keep them elsewhere." />
				<${Field} label="The passphrase again" name="again" type="password" required autocomplete="new-password" />
			<//>
			${taken && html`<p role="status" class="notice">The backup is among the downloads of this device.</p>`}
		</details>
	<//>`;
}

function Restart() {
	const [asking, ask] = useState(false);
	return html`<${Block} title="Restart">
		<p>For some seconds no door can be opened over the gateway.</p>
		<button type="button" class="danger" onClick=${() => ask(true)}>Restart the gateway</button>
		${asking && html`<${Confirm} title="Restart the gateway?" submit="Restart" danger act=${() => post('/admin/v1/restart')}
			done="The gateway restarts." close=${() => ask(false)}><p>It ends, and its service starts it again. This page says when it is back.</p><//>`}
	<//>`;
}

function About({ status, zone }) {
	const { name, version, gatewayId, started, stations, accounts, sessions, listeners } = status;
	return html`<${Block} title="This gateway">
		<${Pairs} of=${{
			Name: name, Version: version, Id: html`<code>${gatewayId}</code>`, 'Running since': inZone(zone, started),
			Stations: `${stations.online} of ${stations.enrolled} online`, Accounts: `${accounts}, and ${sessions} ${sessions === 1 ? 'session' : 'sessions'}`,
			Addresses: html`<ul>${listeners.map((l) => html`<li key=${l.name + l.address}>${l.name} ${l.address}</li>`)}</ul>`,
		}} />
	<//>`;
}

export default function Gateway() {
	const link = useLink();
	const { value: status, error, again } = useFresh((signal) => get('/admin/v1/status', { signal }));
	useEffect(() => {
		let seconds = 0;
		return everySecond(() => ++seconds % 10 === 0 && live.link === 'live' && again());
	}, []);
	const zone = status?.timeZone;
	return html`<${Title}>Gateway<//>
		<${Problem} text=${link === 'live' ? error : ''} again=${again} />
		${!status && !error && html`<p class="wait">Loading…</p>`}
		${status && html`<${Conditions} status=${status} />
			<div class="sections">
				<${Clock} status=${status} changed=${again} />
				${status.certificate && html`<${Certificate} certificate=${status.certificate} zone=${zone} />`}
				${status.cloud && html`<${Cloud} cloud=${status.cloud} zone=${zone} />`}
				<${Storage} status=${status} />
				<${Backup} />
				<${Restart} />
				<${About} status=${status} zone=${zone} />
			</div>`}`;
}
