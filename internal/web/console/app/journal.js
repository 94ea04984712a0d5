// Journal: who opened what, when, and how it ended; and every change.

import { outcomes } from './doors.js';
import { Stream, live, stationName } from './live.js';
import { Empty, Field, Load, Pairs, Problem, Select, Title, Wait, html, inZone, momentOf, stationOptions, useEffect, useMemo, useState, useTopic } from './ui.js';

const topic = (label, kinds) => [label, kinds.split(' ')];

const bad = 'door-forced door-held left-unlocked station-silent refused-often battery-low records-lost gap'.split(' ');
const warn = 'not-opened unlock-denied unlock-throttled login-failed cloud-offline backup-taken restored taken-back'.split(' ');

// What can be shown: labels and kinds of records.
const topics = {
	'': ['Everything', []],
	unlocks: topic('Who opened what', 'unlock unlock-denied unlock-throttled not-opened'),
	alarms: ['Alarms and notices', [...bad, ...warn]],
	people: topic('People and rights', 'login login-failed session-revoked granted ungranted account-added account-changed account-removed ' +
		'group-added group-changed group-removed holiday-changed holiday-removed token-added token-removed'),
};

// Sentences about records; the capitals stand for what the record states.
const sentences = {
	'unlock-denied': 'WHO tried to open LOCK without the right',
	'unlock-throttled': 'WHO asked too often to open LOCK',
	'lock-changed': 'LOCK is STATUS',
	'not-opened': 'LOCK was sent an unlock',
	'door-held': 'LOCK: door open for too long',
	'left-unlocked': 'LOCK was left unlocked',
	login: 'WHOSE signed in',
	'login-failed': 'A sign-in of WHOSE failed',
	'session-revoked': 'WHO ended sessions of WHOSE',
	granted: 'WHO let WHOSE use STATION',
	ungranted: 'WHO no longer lets WHOSE use STATION',
	'group-changed': 'WHO changed a group: MEMBER',
	'station-rotated': 'WHO made a new login for STATION',
	update: 'WHO: update OUTCOME',
	gap: 'Records were removed before the cloud had taken them',
	'gateway-started': 'The gateway started',
};

// who names who did something. The signer of a command chooses the name that it claims.
function who({ by, email, kid, origin }) {
	if (kid) return `${by ?? ''} (signed by ${kid})`;
	return by || email || (origin === 'integration' ? 'Home Assistant' : 'The gateway');
}

function lockName({ station, lock }) {
	if (!station) return 'a door that there is not';
	const name = stationName(station);
	return lock && live.stations.get(station)?.locks.length !== 1 ? `${name}, ${lock.replace('-', ' ')}` : name;
}

// words returns the tone of a record and a sentence, and for an unlock that is not known to have opened, why.
// reported says that the lock has reported to be unlocked since.
function words({ kind, status, station }, outcome, reported) {
	if (kind !== 'unlock') {
		const tone = status === 'jammed' || bad.includes(kind) ? 'bad' : warn.includes(kind) ? 'warn' : '';
		const [noun, verb] = kind.split('-');
		const change = kind.endsWith('ed') && { account: `WHO ${verb} the account WHOSE`, station: `WHO ${verb} STATION` }[noun];
		return [tone, sentences[kind] ?? (change || `${station ? 'LOCK' : 'WHO'}: ${kind.replaceAll('-', ' ')}`)];
	}
	if (outcome === 'done') return ['ok', 'WHO opened LOCK'];
	if (outcome === 'requested') return ['', 'WHO asked to open LOCK'];
	if (outcome === 'acknowledged') return ['', 'WHO sent an unlock to LOCK', reported ? 'it then reported unlocked' : 'not confirmed'];
	return ['warn', 'WHO tried to open LOCK', (outcomes[outcome] ?? outcomes.unknown)[1].toLowerCase()];
}

function sentence({ record, outcome, all }, zone) {
	const { kind, email, station, count, remote, status, batteryVoltage: volts } = record;
	const { detail } = all.findLast((one) => one.kind === kind); // of an unlock, that of its end
	const names = { WHO: who(record), WHOSE: email || (kind.endsWith('granted') ? 'a group' : kind === 'session-revoked' ? 'everybody' : 'somebody unknown'), MEMBER: email || stationName(station), STATUS: status, OUTCOME: `${record.version ?? ''} ${outcome}`, STATION: station ? stationName(station) : 'stations', LOCK: lockName(record) };
	const [tone, text, why] = words(record, outcome, all.some(({ kind }) => kind === 'lock-changed'));
	const facts = detail?.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (at) => (Date.parse(at) ? inZone(zone, at) : at));
	const more = [why, (kind !== 'unlock' || outcome === 'offline') && facts, volts && volts.toFixed(2) + ' V', count > 1 && count + ' times', kind.startsWith('login') && remote && 'from ' + remote];
	const said = more.filter(Boolean).join(', ');
	return {
		tone,
		text: html`${text.split(/([A-Z]{3,})/).map((part) => (names[part] ? html`<b>${names[part]}</b>` : part))}
			${said && html`<small> · ${said}</small>`}`,
	};
}

const openingTime = 10_000; // in which an unlock explains that its lock is open

// entries turns records, oldest first, into lines, newest first. One unlock is one line.
function entries(records, zone) {
	const found = [];
	const unlocks = new Map(); // by command, and the latest by lock
	for (const record of records) {
		const at = Date.parse(record.time);
		const lock = record.station + '/' + record.lock;
		const unlock = record.kind === 'unlock';
		const before = unlocks.get(unlock ? record.commandId : record.status === 'unlocked' && lock);
		if (before && (unlock || at - before.at < openingTime)) {
			before.all.push(record);
			if (unlock) Object.assign(before, { at, outcome: record.outcome });
			else unlocks.delete(lock); // one report belongs to it
			continue;
		}
		const entry = { record, at, outcome: record.outcome, all: [record] };
		found.push(entry);
		if (unlock) unlocks.set(record.commandId, entry).set(lock, entry);
	}
	return found.reverse().map((entry) => ({ ...entry, ...sentence(entry, zone) }));
}

const most = 1_000; // records that are shown

function filterOf(query, zone) {
	const filter = new URLSearchParams();
	for (const kind of topics[query.get('show')]?.[1] ?? []) filter.append('kind', kind);
	for (const key of ['station', 'account']) if (query.get(key)) filter.set(key, query.get(key));
	if (query.get('from')) filter.set('since', momentOf(zone, query.get('from') + 'T00:00'));
	if (query.get('to')) filter.set('until', momentOf(zone, query.get('to') + 'T24:00'));
	return String(filter);
}

function Entry({ entry: { record, tone, text, all }, zone }) {
	const [open, setOpen] = useState(false);
	const known = { bad: 'Alarm: ', warn: 'Notice: ' }[tone];
	return html`<li class=${'entry tinted ' + tone}>
		<details onToggle=${({ target }) => setOpen(target.open)}>
			<summary>
				<time datetime=${record.time}>${inZone(zone, record.time, 'time')}${!record.clockTrusted && '?'}</time>
				<span>${known && html`<span class="unseen">${known}</span>`}${text}</span>
			</summary>
			${open && all.map(({ time, clockTrusted, ...facts }) => html`<${Pairs} key=${facts.seq} of=${{ time: inZone(zone, time), ...facts }} />`)}
		</details>
	</li>`;
}

// Records shows what a query selects: the first so many, newest first, and new ones.
export function Records({ filter, first, zone }) {
	useTopic('list');
	const [tail, setTail] = useState(first);
	const [{ records, error }, set] = useState({});
	useEffect(() => {
		const once = filter.includes('until=');
		const stream = new Stream({
			path: `journal?${filter}&tail=${tail}&follow=${!once}`,
			once,
			whole: (records) => set({ records }),
			line: (record) => set(({ records }) => ({ records: [...records, record].slice(-most) })),
			lost: (error) => error && set((before) => ({ ...before, error })),
		});
		return () => stream.stop();
	}, [filter, tail]);
	const list = useMemo(() => entries(records ?? [], zone), [records, live.stations.size]);
	const days = Map.groupBy(list, ({ record }) => inZone(zone, record.time, 'day'));
	return html`<${Problem} text=${error?.message} />
		${!records && !error && html`<${Wait} />`}
		${records && list.length === 0 && html`<${Empty} title="No record matches." />`}
		${list.some(({ record }) => !record.clockTrusted) && html`<p><small>Where a “?” stands, the gateway could not be sure of its clock.</small></p>`}
		${[...days].map(([day, some]) => html`<section key=${day} aria-label=${day}>
			<h2>${day}</h2>
			<ol class="card list">${some.map((entry) => html`<${Entry} key=${entry.record.seq} entry=${entry} zone=${zone} />`)}</ol>
		</section>`)}
		${records?.length >= tail && tail < most && html`<div class="actions"><button onClick=${() => setTail(most)}>Show older records</button></div>`}
		${records?.length >= most && html`<p><small>These are the newest ${most} records. Older ones: choose earlier days, or save them as CSV.</small></p>`}`;
}

const go = (fields) => (location.hash = '#/journal?' + new URLSearchParams(fields.filter(([, value]) => value)));

function Filter({ query, accounts }) {
	useTopic('list');
	const set = [...query.keys()].length;
	const field = (name) => ({ name, value: query.get(name) ?? '' });
	return html`<details open=${set > 0}>
		<summary>Filter${set > 0 && ` (${set} set)`}</summary>
		<form class="filters" onChange=${(event) => go([...new FormData(event.currentTarget)])}>
			<${Select} label="Show" ...${field('show')} options=${Object.entries(topics).map(([key, [label]]) => [key, label])} />
			<${Select} label="Station" ...${field('station')} options=${[['', 'All stations'], ...stationOptions()]} />
			<${Select} label="Person" ...${field('account')} options=${[['', 'Everybody'], ...accounts.map(({ email }) => [email, email])]} />
			<${Field} label="From" type="date" ...${field('from')} />
			<${Field} label="To" type="date" ...${field('to')} />
		</form>
		${set > 0 && html`<button onClick=${() => go([])}>Show everything</button>`}
	</details>`;
}

export default function Journal({ query }) {
	return html`<${Title}>Journal<//>
		<${Load} paths=${['status', 'accounts']}>${({ accounts, timeZone: zone }) => {
			const filter = filterOf(query, zone);
			return html`<${Filter} query=${query} accounts=${accounts} />
				<p><small>Times are those of ${zone || 'this device'}.</small></p>
				<${Records} key=${filter} filter=${filter} first="100" zone=${zone} />
				<a class="button" download="journal.csv" href=${`/admin/v1/journal?${filter}&csv=true`}>Save as CSV</a>`;
		}}<//>`;
}
