// Add a station: its facts, its login, and the end when it has really connected.

import { post } from './api.js';
import { live } from './live.js';
import { LockRow, nameOf } from './lock.js';
import { Login } from './login.js';
import { Field, Form, Title, announce, html, useEffect, useLayoutEffect, useLink, useRef, useState, useTopic } from './ui.js';

const steps = ['Name it', 'Connect it', 'Try it'];

function Steps({ step }) {
	return html`<ol class="steps" aria-label="Steps">
		${steps.map((text, i) => html`<li key=${i} aria-current=${i === step ? 'step' : undefined}>${text}</li>`)}
	</ol>`;
}

/** Step is a part of the page; its heading gets the focus when it appears. */
function Step({ title, children }) {
	const heading = useRef(null);
	useLayoutEffect(() => heading.current.focus(), []);
	return html`<section class="card"><h2 ref=${heading} tabindex="-1">${title}</h2>${children}</section>`;
}

function Facts({ onAdded }) {
	const next = useRef(Math.max(0, ...live.stations.keys()) + 1).current;
	const add = async ({ id, name, locks, secret, token }) => {
		const station = { stationId: Number(id), name, locks: Number(locks) };
		if (secret) station.secret = secret;
		if (token) station.token = token;
		onAdded(await post('/admin/v1/stations', station));
	};
	return html`<section class="card"><${Form} submit="Create its login" onSubmit=${add}>
		<${Field} label="Name" name="name" maxlength="100" placeholder="North entrance" hint="What people call this door." />
		<div class="pair">
			<${Field} label="Locks" name="locks" type="number" min="1" max="64" value="1" required />
			<${Field} label="Number" name="id" type="number" min="1" value=${next} required />
		</div>
		<details>
			<summary>The hardware came with a login</summary>
			<${Field} label="Its password" name="secret" autocomplete="off" spellcheck="false" hint="Empty: a new one is made." />
			<${Field} label="Its station token" name="token" autocomplete="off" spellcheck="false" hint="Empty: a new one is made." />
		</details>
	<//></section>`;
}

function Connect({ issued }) {
	return html`<${Step} title="Give the station its login">
		<p>Type it into the station, or scan the code. This page goes on by itself as soon as the station has connected.</p>
		<${Login} issued=${issued} />
		<p class="waiting" role="status">Waiting for station ${issued.stationId}…</p>
		<details>
			<summary>It does not connect</summary>
			<ul class="hints">
				<li>Is the station in the same network, and is the server’s address right?</li>
				<li>Is the user name also its MQTT client id?</li>
				<li>With TLS: does it trust the certificate, and is its clock right?</li>
			</ul>
		</details>
	<//>`;
}

function Done({ station, issued, onAnother }) {
	return html`<${Step} title=${`${nameOf(station)} is connected`}>
		<p>Try it while you stand at the door.</p>
		<ul class="locks">${station.locks.map((lock) => html`<${LockRow} key=${lock.lockId} station=${station} lock=${lock} />`)}</ul>
		<div class="actions">
			<a class="button primary" href="#/people">Say who may open it</a>
			<button type="button" onClick=${onAnother}>Add another</button>
			<a class="button" href="#/doors">All doors</a>
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
		announce(`${nameOf(station)} is connected.`);
	}, [online]);
	const another = () => {
		setIssued(null);
		setConnected(false);
	};
	return html`<${Title} back=${{ href: '#/doors', text: '‹ Doors' }}>Add a station<//>
		<div class="column">
			<${Steps} step=${connected ? 2 : issued ? 1 : 0} />
			${!issued && (link === 'connecting' ? html`<p class="wait">Loading…</p>` : html`<${Facts} onAdded=${setIssued} />`)}
			${issued && !connected && html`<${Connect} issued=${issued} />`}
			${connected && station && html`<${Done} station=${station} issued=${issued} onAnother=${another} />`}
		</div>`;
}
