// Add a station: its facts, its login, and the end when it has really connected.

import { post } from './api.js';
import { live, stationName } from './live.js';
import { Locks } from './lock.js';
import { Login } from './login.js';
import { Field, Form, Title, Wait, announce, html, useEffect, useLink, useRef, useState, useTopic } from './ui.js';

const steps = ['Name it', 'Connect it', 'Try it'];

function Step({ title, children }) {
	return html`<section class="card"><${Title} level="h2">${title}<//>${children}</section>`;
}

function Describe({ onAdded }) {
	const next = useRef(Math.max(0, ...live.stations.keys()) + 1).current;
	const add = async ({ id, name, locks, secret, token }) => {
		const station = { stationId: Number(id), name, locks: Number(locks), secret: secret || undefined, token: token || undefined };
		onAdded(await post('/admin/v1/stations', station));
	};
	const own = { autocomplete: 'off', spellcheck: 'false', hint: 'Empty: a new one is made.' };
	return html`<section class="card"><${Form} submit="Create its login" onSubmit=${add}>
		<${Field} label="Name" name="name" maxlength="100" placeholder="North entrance" hint="What people call this door." />
		<${Field} label="Locks" name="locks" type="number" min="1" max="64" value="1" required />
		<${Field} label="Number" name="id" type="number" min="1" value=${next} required />
		<details>
			<summary>The hardware came with a login</summary>
			<${Field} label="Its password" name="secret" ...${own} />
			<${Field} label="Its station token" name="token" ...${own} />
		</details>
	<//></section>`;
}

function Connect({ issued }) {
	return html`<${Step} title="Give the station its login">
		<p>Type it into the station, or scan the code. This page goes on by itself once the station has connected.</p>
		<${Login} issued=${issued} />
		<p class="notice" role="status">Waiting for station ${issued.stationId}…</p>
		<details>
			<summary>It does not connect</summary>
			<p>Is it in the same network, and is the server’s address right? Is the user name also its MQTT client id? With TLS: does it trust the certificate, and is its clock right?</p>
		</details>
	<//>`;
}

function Done({ station, issued, onAnother }) {
	return html`<${Step} title=${`${stationName(station.stationId)} is connected`}>
		<${Locks} station=${station} />
		<div class="actions">
			<a class="button primary" href="#/people">Say who may open it</a>
			<button type="button" onClick=${onAnother}>Add another</button>
		</div>
		<details><summary>Show its login until this page closes</summary><${Login} issued=${issued} /></details>
	<//>`;
}

export default function Add() {
	const [issued, setIssued] = useState(null);
	const [connected, setConnected] = useState(false);
	useTopic(issued?.stationId ?? 'list');
	const link = useLink();
	const station = issued && live.stations.get(issued.stationId);
	const online = station?.status === 'online' && link === 'live';
	useEffect(() => {
		if (!online || connected) return;
		setConnected(true);
		announce(`${stationName(station.stationId)} is connected.`);
	}, [online]);
	const another = () => {
		setIssued(null);
		setConnected(false);
	};
	const step = connected ? 2 : issued ? 1 : 0;
	return html`<${Title} back="Doors">Add a station<//>
		<div class="narrow">
			<ol class="steps" aria-label="Steps">${steps.map((text, i) => html`<li key=${i} aria-current=${i === step ? 'step' : undefined}>${text}</li>`)}</ol>
			${step === 0 && (link === 'connecting' ? html`<${Wait} />` : html`<${Describe} onAdded=${setIssued} />`)}
			${step === 1 && html`<${Connect} issued=${issued} />`}
			${step === 2 && station && html`<${Done} station=${station} issued=${issued} onAnother=${another} />`}
		</div>`;
}
