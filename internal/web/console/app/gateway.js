// Gateway: what is wrong and what to do about it; clock, certificate, update, backup.

import { open, post, put, sentence } from './api.js';
import { Age, Ask, Badge, Block, Field, Form, Load, Pairs, Title, html, inZone, momentOf } from './ui.js';

const severities = { fatal: ['bad', 'No door opens'], warning: ['warn', 'Warning'], notice: ['', 'Notice'] };

const size = (bytes) => Math.ceil(bytes / 1e5) / 10 + ' MB';

const State = ({ good, text }) => html`<${Badge} tone=${good ? 'ok' : 'warn'}>${good ? text : 'Not ' + text.toLowerCase()}<//>`;

function Conditions({ ready, conditions, stations: { online, enrolled } }) {
	const offline = enrolled - online;
	return html`<p><${Badge} tone=${ready ? 'ok' : 'bad'}>${ready ? 'Ready' : 'Not ready'}<//>
			${' '}${ready ? 'The gateway can open doors.' : 'No door can be opened.'}
			${' '}${offline > 0 ? `${offline} of ${enrolled} stations are offline.` : conditions.length === 0 && 'Nothing is wrong.'}</p>
		${conditions.map(({ code, severity, summary, advice, since }) => {
			const [tone, word] = severities[severity];
			return html`<section key=${code} class=${'card tinted ' + tone}>
				<p><${Badge} tone=${tone}>${word}<//> <${Age} at=${since} /></p>
				<p><strong>${sentence(summary)}</strong></p>
				<p>${sentence(advice)}</p>
			</section>`;
		})}`;
}

function Clock({ clock, system, conditions, timeZone, when, change }) {
	const ahead = conditions.some(({ code }) => code === 'clock-ahead');
	const title = ahead ? 'Set the clock back' : 'Accept the system’s time';
	return html`<${Block} title="Clock" side=${html`<${State} good=${clock.trusted} text="Trusted" />`}>
		<${Pairs} of=${{ Time: when(clock.now), 'System’s time': !clock.trusted && when(system), 'Time zone': timeZone || 'that of its system' }} />
		${!clock.trusted && html`<${Ask} button=${title} submit=${title} act=${() => change(post(ahead ? 'clock/reset' : 'clock/accept'))}>
			<p>Compare the system’s time, ${when(system)}, with a watch first. ${ahead ? 'A wrong time has raised the gateway’s clock.' : 'The gateway trusts it until it is restarted.'} The journal records it.</p>
		<//>`}
	<//>`;
}

function Cloud({ cloud: { connected, url, since, error, advice, nextTry, waiting, lastDelivery }, when }) {
	return html`<${Block} title="Cloud" side=${html`<${State} good=${connected} text="Connected" />`}>
		<${Pairs} of=${{
			Address: url, Since: when(since), Why: error, 'What to do': advice, 'Next try': when(nextTry),
			Waiting: `${waiting} records`, 'Last delivery': when(lastDelivery),
		}} />
	<//>`;
}

function Certificate({ certificate: { own, names, notAfter, fingerprint, authorityFingerprint }, when }) {
	const code = (text) => text && html`<code>${text}</code>`;
	return html`<${Block} title="Certificate">
		<${Pairs} of=${{
			From: own ? 'the gateway itself' : 'the configuration', Names: names.join(', '), 'Valid until': when(notAfter),
			Fingerprint: code(fingerprint), Authority: code(authorityFingerprint),
		}} />
		<a class="button" href="/trust">Trust this gateway on another device</a>
	<//>`;
}

const Passphrase = (props) => html`<${Field} type="password" required autocomplete="new-password" ...${props} />`;

function Backup() {
	const take = async ({ passphrase, again, password }) => {
		if (passphrase !== again) throw new Error('The passphrases differ.');
		const response = await open('POST', 'backup', { body: { passphrase, password } });
		const link = document.createElement('a');
		link.href = URL.createObjectURL(await response.blob());
		link.download = `gatehouse-${new Date().toISOString().slice(0, 10)}.backup`;
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
	};
	return html`<${Block} title="Backup">
		<p>One encrypted file with accounts, stations, grants and the journal. It has neither the configuration nor the certificates: for a spare board that phones and stations trust at once, run <code>gatehouse backup</code> on the gateway.</p>
		<details>
			<summary>Take a backup</summary>
			<${Form} submit="Save the backup" said="The backup is among the downloads of this device." onSubmit=${take}>
				<${Passphrase} label="Passphrase" name="passphrase" hint="Several words. Nobody can read the backup without them." />
				<${Passphrase} label="The passphrase again" name="again" />
				<${Field} label="Your password" name="password" type="password" required autocomplete="current-password" hint="That of your account, as for signing in." />
			<//>
		</details>
	<//>`;
}

const after = 'stations connect again within about a minute. Unless all is well, the present version comes back.';

function Update({ image, sentences, phase, percent, other, timeZone, change }) {
	const start = ({ file, url, at: local }) => {
		const at = local ? momentOf(timeZone, local) : undefined;
		return change(file.size ? put(`update/file?at=${at ?? ''}`, file, { patience: 36e5 }) : post('update', { url, at }));
	};
	const [verb, path, then] = phase === 'waiting' ? ['Withdraw', 'withdraw', 'Nothing restarts.'] : ['Go back', 'rollback', `The gateway restarts at once: ${after}`];
	const progress = percent > 0 && html`<progress max="100" value=${percent} aria-label="Progress"></progress>`;
	return html`<${Block} title="Update">
		${sentences.map((text) => html`<p>${text}</p>`)}
		${progress}
		${image && html`<div class="actions">
			<${Ask} button="Update" title="Update this gateway?" submit="Update" act=${start}>
				<p>Doors keep working while it is written. Then the gateway restarts: ${after}</p>
				<${Field} label="File" name="file" type="file" accept=".update" />
				<${Field} label="Or its address" name="url" type="url" />
				<${Field} label="Restart at" name="at" type="datetime-local" hint="Empty: at once." />
				${progress}
			<//>
			${other.version && html`<${Ask} key=${path} button=${verb} kind="danger" title=${`${verb}: version ${other.version}?`} submit=${verb} act=${() => change(post('update/' + path))}>
				<p>${then}</p>
			<//>`}
		</div>`}
	<//>`;
}

function About({ name, version, gatewayId, started, stations, listeners, journal, memory, data, when }) {
	return html`<${Block} title="This gateway">
		<${Pairs} of=${{
			Name: name, Version: version, Id: html`<code>${gatewayId}</code>`, 'Running since': when(started),
			Stations: `${stations.online} of ${stations.enrolled} online`,
			Journal: `${journal.records} records, ${size(journal.bytes)}`, Folder: html`<code>${data}</code>`,
			Memory: memory.used && `${size(memory.used)} of ${size(memory.limit)}`,
			Addresses: listeners.map(({ name, address }) => html`<div key=${name + address}>${name} ${address}</div>`),
		}} />
		<${Ask} button="End all sessions" kind="danger" title="End all sessions?" submit="End all sessions" act=${() => post('sessions/end-all', undefined, { patience: 36e5 })}>
			<p>Everyone has to sign in again, you too. Integrations need new tokens. For when tokens or a copy of the data may have been stolen.</p>
		<//>
		<${Ask} button="Restart the gateway" kind="danger" title="Restart the gateway?" submit="Restart" act=${() => post('restart')}>
			<p>For some seconds no door can be opened over it. This page says when it is back.</p>
		<//>
	<//>`;
}

export default function Gateway() {
	return html`<${Title}>Gateway<//>
		<${Load} paths=${['clock', 'status', 'update']} every="5">${(status, change) => {
			const all = { ...status, change, when: (at) => at && inZone(status.timeZone, at) };
			return html`<${Conditions} ...${all} />
				<div class="sections">
					<${Clock} ...${all} />
					${all.certificate && html`<${Certificate} ...${all} />`}
					${all.cloud && html`<${Cloud} ...${all} />`}
					<${Update} ...${all} /><${Backup} /><${About} ...${all} />
				</div>`;
		}}
		<//>`;
}
