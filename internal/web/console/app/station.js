// One station: its locks, battery and connections, its settings, a new login, its end.

import { get, lines, patch, post, remove } from './api.js';
import { live, stationName } from './live.js';
import { Facts, Locks } from './lock.js';
import { Login } from './login.js';
import { Ask, Block, Load, inZone } from './parts.js';
import { Empty, Field, Form, Problem, Select, Title, Wait, announce, html, useLink, useLoad, useState, useTopic } from './ui.js';

const path = (id, rest = '') => `/admin/v1/stations/${id}${rest}`;
const day = (text) => new Date(text + 'T12:00').toLocaleDateString([], { day: 'numeric', month: 'short' });
const volt = (value) => value.toFixed(2) + ' V';

/** Chart draws volts over days; its bounds are whole tenths of a volt. */
function Chart({ points }) {
	const [width, height] = [600, 140];
	const volts = points.map((point) => point.volts);
	const low = Math.floor(Math.min(...volts) * 10 - 1) / 10;
	const high = Math.ceil(Math.max(...volts) * 10 + 1) / 10;
	const [first, last] = [points[0], points.at(-1)];
	const at = ({ day }) => Date.parse(day) - Date.parse(first.day);
	const x = (point) => (at(point) / at(last)) * width;
	const y = (point) => ((high - point.volts) / (high - low)) * height;
	const line = 'M' + points.map((point) => `${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join('L');
	return html`<figure>
		<svg role="img" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none"
			aria-label=${`${volt(first.volts)} on ${day(first.day)}, ${volt(last.volts)} on ${day(last.day)}`}>
			<path class="area" d=${`${line}V${height}H0z`} />
			<path class="curve" d=${line} />
		</svg>
		<figcaption><span>${day(first.day)}</span><span>${low.toFixed(1)} V to ${high.toFixed(1)} V</span><span>${day(last.day)}</span></figcaption>
	</figure>`;
}

function Battery({ station }) {
	return html`<${Block} title="Battery">
		<${Load} paths=${[`stations/${station.stationId}/battery`]}>${({ points, daysLeft }) => html`
			<p><b>${station.batteryVoltage == null ? 'Not reported yet' : volt(station.batteryVoltage)}</b>
				${daysLeft != null && ` · about ${daysLeft} ${daysLeft === 1 ? 'day' : 'days'} left`}</p>
			${points.length > 1 ? html`<${Chart} points=${points} />` : html`<p><small>The curve needs reports of two days.</small></p>`}`}
		<//>
	<//>`;
}

function spell(milliseconds) {
	const minutes = Math.round(milliseconds / 60_000);
	if (minutes < 1) return `${Math.max(1, Math.round(milliseconds / 1000))} s`;
	if (minutes < 120) return `${minutes} min`;
	return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** outages loads the last times without a connection, the newest first, each with its end if it has one. */
async function outages(id, signal) {
	const found = [];
	const { timeZone } = await get('/admin/v1/status', { signal });
	const take = ({ kind, time }) => {
		if (kind === 'station-offline') found.unshift({ from: time });
		else if (found[0] && !found[0].to) found[0].to = time;
	};
	const query = `tail=100&station=${id}&kind=station-online&kind=station-offline`;
	await lines(`/admin/v1/journal?${query}`, (record) => record?.kind && take(record), { signal });
	return found.slice(0, 20).map(({ from, to }) => `${inZone(timeZone, from)}, ${to ? 'for ' + spell(Date.parse(to) - Date.parse(from)) : 'until now'}`);
}

/** Connections shows when the station was away; it loads again when the station comes or goes. */
function Connections({ station: { stationId, status } }) {
	const { value, error, again } = useLoad((signal) => outages(stationId, signal), [stationId, status]);
	return html`<${Block} title="Connection">
		<${Problem} text=${error} again=${again} />
		${value && html`<p>${value.length ? 'It was offline:' : 'It has not lost its connection since the journal begins.'}</p>
			<ul class="list">${value.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}
		<a class="button" href=${`#/journal?station=${stationId}`}>In the journal</a>
	<//>`;
}

const modes = Object.entries({ off: 'Nothing', state: 'State only', 'state+unlock': 'State, and may unlock' });

function Settings({ station }) {
	const [saved, setSaved] = useState('');
	const save = async ({ name, locks, homeassistant }) => {
		setSaved('');
		await patch(path(station.stationId), { name, locks: Number(locks), homeassistant });
		setSaved('Saved.');
		announce('Saved.');
	};
	return html`<${Block} title="Settings">
		<${Form} submit="Save" onSubmit=${save}>
			<${Field} label="Name" name="name" maxlength="100" value=${station.name} />
			<${Field} label="Locks" name="locks" type="number" min="1" max="64" value=${station.locks.length} required />
			${station.homeassistant && html`<${Select} label="Home Assistant sees" name="homeassistant" value=${station.homeassistant} options=${modes} />`}
			<p>${saved}</p>
		<//>
	<//>`;
}

function Replace({ id, name }) {
	const end = async () => {
		await remove(path(id));
		location.hash = '#/doors';
	};
	return html`<${Block} title="Replace or remove">
		<p>A new login is for hardware that was replaced, or whose password others know.</p>
		<div class="actions">
			<${Ask} button="New login" title="New login?" submit="Make a new login" act=${() => post(path(id, '/rotate'))} show=${(issued) => html`<${Login} issued=${issued} />`}>
				<p>Its password ends now. Nobody can open <strong>${name}</strong> until the station has the new one.</p>
			<//>
			<${Ask} button="Remove" kind="danger" title=${`Remove ${name}?`} submit="Remove" act=${end}>
				<p>It is disconnected, and who might open it is forgotten. The journal stays.</p>
			<//>
		</div>
	<//>`;
}

export default function Station({ args }) {
	const id = Number(args[0]);
	useTopic(id);
	const link = useLink();
	const station = live.stations.get(id);
	if (!station) {
		if (link === 'connecting') return html`<${Wait} />`;
		return html`<${Title} back="Doors">Station ${args[0]}<//><${Empty} title="There is no such station."><p>It may have been removed.</p><//>`;
	}
	return html`<${Title} back="Doors">${stationName(id)}<//>
		<${Facts} station=${station}><small>number ${id}${station.firmware && `, firmware ${station.firmware}`}</small><//>
		<div class="sections">
			<${Block} title="Locks"><${Locks} station=${station} /><//>
			<${Battery} station=${station} />
			<${Connections} station=${station} />
			<${Settings} key=${id} station=${station} />
			<${Replace} id=${id} name=${stationName(id)} />
		</div>`;
}
