// One station: its locks, battery and connections, its settings, its login, its end. And
// adding one: its facts, its login, and the end when it has really connected.

import { patch, post } from './api.js';
import { Facts, Locks } from './doors.js';
import { Records } from './journal.js';
import { live, stationName } from './live.js';
import { Ask, Block, Empty, Field, Form, Load, Problem, Removal, Secrets, Select, Title, Wait, html, useEffect, useLink, useLoad, useRef, useState, useTopic } from './ui.js';

const day = (text) => new Date(text + 'T12:00').toLocaleDateString([], { day: 'numeric', month: 'short' });
const volt = (value) => value.toFixed(2) + ' V';

// Chart draws volts over days; its bounds are whole tenths of a volt.
function Chart({ points }) {
	const volts = points.map((point) => point.volts);
	const low = Math.floor(Math.min(...volts) * 10 - 1) / 10;
	const high = Math.ceil(Math.max(...volts) * 10 + 1) / 10;
	const [first, last] = [points[0], points.at(-1)];
	const since = (point) => Date.parse(point.day) - Date.parse(first.day);
	const curve = points.map((point) => [since(point) / since(last), (high - point.volts) / (high - low)]);
	return html`<figure>
		<svg role="img" viewBox="0 0 1 1" preserveAspectRatio="none"
			aria-label=${`${volt(first.volts)} on ${day(first.day)}, ${volt(last.volts)} on ${day(last.day)}`}>
			<polyline points=${curve.join(' ')} />
		</svg>
		<figcaption><span>${day(first.day)}</span><span>${low.toFixed(1)} V to ${high.toFixed(1)} V</span><span>${day(last.day)}</span></figcaption>
	</figure>`;
}

function Past({ station: { stationId, batteryVoltage } }) {
	return html`<${Load} paths=${[`stations/${stationId}/battery`, 'status']}>${({ points, daysLeft, timeZone }) => html`
		<${Block} title="Battery">
			<p><b>${batteryVoltage == null ? 'Not reported yet' : volt(batteryVoltage)}</b>
				${daysLeft != null && ` · about ${daysLeft} ${daysLeft === 1 ? 'day' : 'days'} left`}</p>
			${points.length > 1 ? html`<${Chart} points=${points} />` : html`<p><small>The curve needs reports of two days.</small></p>`}
		<//>
		<${Block} title="Connection" side=${html`<a class="button" href=${`#/journal?station=${stationId}`}>In the journal</a>`}>
			<${Records} filter=${`station=${stationId}&kind=station-online&kind=station-offline`} first="10" zone=${timeZone} />
		<//>`}<//>`;
}

const modes = Object.entries({ off: 'Nothing', state: 'State only', 'state+unlock': 'State, and may unlock' });

function Settings({ station }) {
	const save = ({ locks, ...fields }) => patch(`stations/${station.stationId}`, { ...fields, locks: Number(locks) });
	return html`<${Block} title="Settings">
		<${Form} submit="Save" said="Saved." onSubmit=${save}>
			<${Field} label="Name" name="name" maxlength="100" value=${station.name} />
			<${Field} label="Locks" name="locks" type="number" min="1" max="64" value=${station.locks.length} required />
			${station.homeassistant && html`<${Select} label="Home Assistant sees" name="homeassistant" value=${station.homeassistant} options=${modes} />`}
		<//>
	<//>`;
}

function Replace({ id, name }) {
	const path = `stations/${id}`;
	return html`<${Block} title="Replace or remove">
		<p>A new login is for hardware that was replaced, or whose password others know.</p>
		<div class="actions">
			<${Ask} button="New login" title="New login?" submit="Make a new login" act=${() => post(path + '/rotate')} show=${(issued) => html`<${Login} issued=${issued} />`}>
				<p>Its password ends now. Nobody can open <strong>${name}</strong> until the station has the new one.</p>
			<//>
			<${Removal} path=${path} title=${`Remove ${name}?`} next="#/doors">
				<p>It is disconnected, and who might open it is forgotten. The journal stays.</p>
			<//>
		</div>
	<//>`;
}

function QR({ text }) {
	const { value, error, again } = useLoad(() => post('qr', { text }));
	if (!value) return html`<${Problem} text=${error} again=${again} />`;
	const size = value.size + 8; // the quiet zone
	const dark = value.rows.flatMap((row, y) => Array.from(row, (module, x) => (module === '1' ? `M${x} ${y}h1v1h-1z` : '')));
	return html`<svg class="qr" role="img" aria-label="QR code of the login" viewBox=${`-4 -4 ${size} ${size}`} shape-rendering="crispEdges">
		<path fill="#fff" d=${`M-4-4h${size}v${size}h-${size}z`} /><path fill="#000" d=${dark.join('')} />
	</svg>`;
}

// Server shows where a station connects: with TLS if it can, by the host that reached this page.
function Server({ listeners, addresses, mqtt: { username, password } }) {
	const found = ['mqtts', 'mqtt'].map((name) => listeners.find((one) => one.name === name)).find(Boolean);
	if (!found) return null;
	const here = location.hostname;
	const outside = /^(localhost|127\.|\[::1)/.test(here) && addresses.find((one) => one.includes('.'));
	const server = `${outside || here}:${found.address.split(':').pop()}`;
	return html`<p>Server: <code>${server}</code>, MQTT ${found.tls ? 'with' : 'without'} TLS</p>
		<${QR} text=${`${found.name}://${username}:${encodeURIComponent(password)}@${server}`} />
		${found.tls && html`<p><small>The station has to trust <a href="/ca.crt" download>this gateway’s certificate</a>.</small></p>`}`;
}

// Login shows an IssuedStation of the API, once: to be copied or scanned.
function Login({ issued: { mqtt, stationToken } }) {
	return html`<${Secrets} of=${{ 'User name and client id': mqtt.username, Password: mqtt.password, 'Station token, for apps': stationToken }} />
		<${Load} paths=${['status']}>${(status) => html`<${Server} ...${status} mqtt=${mqtt} />`}<//>`;
}

function Step({ title, children }) {
	return html`<section class="card">${title && html`<${Title} level="h2">${title}<//>`}${children}</section>`;
}

function Describe({ onAdded }) {
	const next = useRef(Math.max(0, ...live.stations.keys()) + 1).current;
	const add = async ({ id, name, locks }) => onAdded(await post('stations', { stationId: Number(id), name, locks: Number(locks) }));
	return html`<${Step}><${Form} submit="Create its login" onSubmit=${add}>
		<${Field} label="Name" name="name" maxlength="100" placeholder="North entrance" hint="What people call this door." />
		<${Field} label="Locks" name="locks" type="number" min="1" max="64" value="1" required />
		<${Field} label="Number" name="id" type="number" min="1" value=${next} required />
	<//><//>`;
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
			<button onClick=${onAnother}>Add another</button>
		</div>
		<details><summary>Show its login until this page closes</summary><${Login} issued=${issued} /></details>
	<//>`;
}

function Add() {
	const [issued, setIssued] = useState(null);
	const [connected, setConnected] = useState(null); // the station that has
	useTopic(issued?.stationId ?? 'list');
	const link = useLink();
	const station = live.stations.get(issued?.stationId);
	const online = station?.status === 'online' && link === 'live';
	useEffect(() => online && setConnected(issued), [online]);
	const step = !issued ? 0 : connected === issued ? 2 : 1;
	return html`<${Title} back="Doors">Add a station<//>
		<div class="narrow">
			<p>Step ${step + 1} of 3: ${['name it', 'connect it', 'try it'][step]}</p>
			${step === 0 && (link === 'connecting' ? html`<${Wait} />` : html`<${Describe} onAdded=${setIssued} />`)}
			${step === 1 && html`<${Connect} issued=${issued} />`}
			${step === 2 && station && html`<${Done} station=${station} issued=${issued} onAnother=${() => setIssued(null)} />`}
		</div>`;
}

export default function Station({ args: [number] }) {
	if (number === 'add') return html`<${Add} />`;
	const id = Number(number);
	useTopic(id);
	const link = useLink();
	const station = live.stations.get(id);
	if (!station) {
		if (link === 'connecting') return html`<${Wait} />`;
		return html`<${Title} back="Doors">Station ${number}<//><${Empty} title="There is no such station." />`;
	}
	return html`<${Title} key=${id} back="Doors">${stationName(id)}<//>
		<${Facts} station=${station} />
		<p class="facts"><small>Number ${id}${station.firmware && `, firmware ${station.firmware}`}</small></p>
		<div class="sections">
			<${Block} title="Locks"><${Locks} station=${station} /><//>
			<${Past} station=${station} />
			<${Settings} key=${id} station=${station} />
			<${Replace} id=${id} name=${stationName(id)} />
		</div>`;
}
