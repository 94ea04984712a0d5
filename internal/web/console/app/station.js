// One station: its locks, battery and connections, its settings, a new login, its end.

import { get, lines, patch, post, remove } from './api.js';
import { live } from './live.js';
import { LockRow, nameOf } from './lock.js';
import { Login } from './login.js';
import { Age, Badge, Dialog, Empty, Field, Form, Moment, Problem, Title, announce, clockTime, html, useLink, useLoad, useState, useTopic } from './ui.js';

function Section({ title, children }) {
	return html`<section class="card"><h2>${title}</h2>${children}</section>`;
}

const day = (text) => new Date(text + 'T12:00').toLocaleDateString([], { day: 'numeric', month: 'short' });

/** Chart draws volts over days; its bounds are whole tenths of a volt. */
function Chart({ points }) {
	const [width, height] = [600, 140];
	const volts = points.map((point) => point.volts);
	const low = Math.floor(Math.min(...volts) * 10 - 1) / 10;
	const high = Math.ceil(Math.max(...volts) * 10 + 1) / 10;
	const days = points.map((point) => Date.parse(point.day) / 864e5);
	const span = Math.max(days.at(-1) - days[0], 1);
	const x = (i) => ((days[i] - days[0]) / span) * width;
	const y = (v) => ((high - v) / (high - low)) * height;
	const line = points.map((point, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(point.volts).toFixed(1)}`).join('');
	const [first, last] = [points[0], points.at(-1)];
	return html`<figure class="chart">
		<svg role="img" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none"
			aria-label=${`${first.volts.toFixed(2)} V on ${day(first.day)}, ${last.volts.toFixed(2)} V on ${day(last.day)}`}>
			<path class="grid" d=${`M0 0H${width}M0 ${height / 2}H${width}M0 ${height}H${width}`} />
			<path class="area" d=${`${line}L${x(points.length - 1)} ${height}L0 ${height}z`} />
			<path class="curve" d=${line} />
		</svg>
		<p class="scale" aria-hidden="true"><span>${high.toFixed(1)} V</span><span>${+((high + low) / 2).toFixed(2)} V</span><span>${low.toFixed(1)} V</span></p>
		<figcaption><span>${day(first.day)}</span><span>${day(last.day)}</span></figcaption>
	</figure>`;
}

function Battery({ station }) {
	const { value, error, again } = useLoad((signal) => get(`/admin/v1/stations/${station.stationId}/battery`, { signal }), [station.stationId]);
	const points = value?.points ?? [];
	return html`<${Section} title="Battery">
		<p class="big">${station.batteryVoltage == null ? 'Not reported yet' : `${station.batteryVoltage.toFixed(2)} V`}
			${value?.daysLeft != null && html`${' '}<small>about ${value.daysLeft} ${value.daysLeft === 1 ? 'day' : 'days'} left</small>`}</p>
		<${Problem} text=${error} again=${again} />
		${points.length > 1 ? html`<${Chart} points=${points} />` : value && html`<p><small>The curve needs reports of two days.</small></p>`}
	<//>`;
}

/** spell returns how long something took, in words. */
function spell(milliseconds) {
	const minutes = Math.round(milliseconds / 60_000);
	if (minutes < 1) return `${Math.max(1, Math.round(milliseconds / 1000))} s`;
	if (minutes < 120) return `${minutes} min`;
	return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** outages pairs the records of connections: the newest first, each with its end if it has one. */
function outages(records) {
	const found = [];
	for (const record of records) {
		const last = found[0];
		if (record.kind === 'station-offline') found.unshift({ from: record.time });
		else if (last && !last.to) last.to = record.time;
	}
	return found.slice(0, 20);
}

async function connections(id, signal) {
	const records = [];
	const query = `tail=100&station=${id}&kind=station-online&kind=station-offline`;
	await lines(`/admin/v1/journal?${query}`, (record) => record?.kind && records.push(record), { signal });
	return outages(records);
}

/** Connections shows when the station was away; it loads again when the station comes or goes. */
function Connections({ station }) {
	const { value, error, again } = useLoad((signal) => connections(station.stationId, signal), [station.stationId, station.status]);
	return html`<${Section} title="Connection">
		<${Problem} text=${error} again=${again} />
		${value?.length === 0 && html`<p>It has not lost its connection since the journal begins.</p>`}
		${value?.length > 0 && html`<ul class="rows">
			${value.map(({ from, to }) => html`<li key=${from}>
				<span>Offline at <${Moment} at=${from} /></span>
				<span>${to ? `for ${spell(Date.parse(to) - Date.parse(from))}` : 'until now'}</span>
			</li>`)}
		</ul>`}
		<p><a class="back" href=${`#/journal?station=${station.stationId}`}>Everything in the journal</a></p>
	<//>`;
}

const modes = { off: 'Nothing', state: 'State only', 'state+unlock': 'State, and may unlock' };

function Settings({ station }) {
	const [saved, setSaved] = useState('');
	const save = async ({ name, locks, homeassistant }) => {
		setSaved('');
		await patch(`/admin/v1/stations/${station.stationId}`, { name, locks: Number(locks), homeassistant });
		setSaved('Saved.');
		announce('Saved.');
	};
	return html`<${Section} title="Settings">
		<${Form} submit="Save" onSubmit=${save}>
			<${Field} label="Name" name="name" maxlength="100" value=${station.name} />
			<${Field} label="Locks" name="locks" type="number" min="1" max="64" value=${station.locks.length} required />
			${station.homeassistant && html`<${Field} as="select" label="Home Assistant sees" name="homeassistant" value=${station.homeassistant}>
				${Object.entries(modes).map(([mode, text]) => html`<option key=${mode} value=${mode}>${text}</option>`)}
			<//>`}
			${saved && html`<p class="saved">${saved}</p>`}
		<//>
	<//>`;
}

/** Rotate gives the station a new login, after a confirmation. */
function Rotate({ station, onClose }) {
	const [issued, setIssued] = useState(null);
	if (issued) {
		return html`<${Dialog} key="login" title=${`New login of ${nameOf(station)}`} onClose=${onClose}>
			<${Login} issued=${issued} />
			<div class="actions"><button class="primary" onClick=${onClose}>I have it</button></div>
		<//>`;
	}
	return html`<${Dialog} key="ask" title="New login?" onClose=${onClose}>
		<p>Its present password ends now, and the station is disconnected until it has the new one. Nobody can open <strong>${nameOf(station)}</strong> until then.</p>
		<${Form} submit="Make a new login" danger cancel=${onClose} onSubmit=${async () => setIssued(await post(`/admin/v1/stations/${station.stationId}/rotate`))} />
	<//>`;
}

function Remove({ station, onClose }) {
	const name = nameOf(station);
	const go = async () => {
		await remove(`/admin/v1/stations/${station.stationId}`);
		announce(`${name} is removed.`);
		location.hash = '#/doors';
	};
	return html`<${Dialog} title=${`Remove ${name}?`} onClose=${onClose}>
		<p>It is disconnected, and nobody can open it any more. Who might open it is forgotten, too. The journal stays.</p>
		<${Form} submit="Remove it" danger cancel=${onClose} onSubmit=${go} />
	<//>`;
}

const dialogs = { rotate: Rotate, remove: Remove };

export default function Station({ args }) {
	const id = Number(args[0]);
	useTopic(id);
	const link = useLink();
	const [dialog, setDialog] = useState('');
	const station = live.stations.get(id);
	const back = { href: '#/doors', text: '‹ Doors' };
	if (!station) {
		if (link === 'connecting') return html`<p class="wait">Loading…</p>`;
		return html`<${Title} back=${back}>Station ${args[0]}<//><${Empty} title="There is no such station."><p>It may have been removed.</p><//>`;
	}
	const online = station.status === 'online';
	const Shown = dialogs[dialog];
	return html`<${Title} back=${back} text=${nameOf(station)}>${nameOf(station)}<//>
		<p class="facts lead">
			<${Badge} tone=${link !== 'live' ? 'plain' : online ? 'ok' : 'bad'}>${online ? 'Online' : 'Offline'}<//>
			${station.lastConnection ? html`<${Age} at=${station.lastConnection} />` : html`<span class="age">never connected</span>`}
			<span class="age">number ${id}</span>
			${station.firmware && html`<span class="age">firmware ${station.firmware}</span>`}
			<span class="age">added ${clockTime(station.enrolled)}</span>
		</p>
		<div class="sections">
			<${Section} title="Locks">
				<ul class="locks">${station.locks.map((lock) => html`<${LockRow} key=${lock.lockId} station=${station} lock=${lock} />`)}</ul>
			<//>
			<${Battery} station=${station} />
			<${Connections} station=${station} />
			<${Settings} key=${id} station=${station} />
			<${Section} title="Replace or remove">
				<p>A new login is for hardware that was replaced, or whose password others know.</p>
				<div class="actions">
					<button type="button" onClick=${() => setDialog('rotate')}>New login</button>
					<button type="button" class="danger" onClick=${() => setDialog('remove')}>Remove</button>
				</div>
			<//>
		</div>
		${Shown && html`<${Shown} station=${station} onClose=${() => setDialog('')} />`}`;
}
