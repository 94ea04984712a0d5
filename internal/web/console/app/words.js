// The journal in words: one line for each thing that has happened.

import { live, stationName } from './live.js';
import { html } from './ui.js';

/** How an unlock ended: its tone, what was done, why not. */
const outcomes = {
	requested: ['', 'is opening'],
	acknowledged: ['ok', 'opened'],
	done: ['ok', 'opened'],
	refused: ['warn', 'did not open', 'refused'],
	failed: ['bad', 'did not open', 'the lock failed'],
	offline: ['warn', 'did not open', 'the station was offline'],
	expired: ['warn', 'did not open', 'no answer in time'],
	late: ['bad', 'tried to open', 'the station answered too late'],
	unknown: ['warn', 'tried to open', 'how it ended is not known'],
};

/** The other kinds: a tone and a sentence; the capitals stand for what the record states. */
const kinds = {
	'unlock-throttled': ['warn', 'WHO asked too often to open LOCK'],
	'lock-changed': ['', 'LOCK is STATUS'],
	'door-opened': ['', 'LOCK: the door was opened'],
	'door-closed': ['', 'LOCK: the door was closed'],
	'not-opened': ['warn', 'LOCK was unlocked, but not opened'],
	'door-forced': ['bad', 'LOCK: the door was forced open'],
	'door-held': ['bad', 'LOCK: the door is open for too long'],
	'left-unlocked': ['bad', 'LOCK was left unlocked'],
	'station-online': ['', 'STATION connected'],
	'station-offline': ['', 'STATION lost its connection'],
	'station-silent': ['bad', 'STATION has been silent for too long'],
	'refused-often': ['bad', 'STATION was refused often'],
	'battery-low': ['bad', 'STATION has a low battery'],
	login: ['', 'WHOSE signed in'],
	'login-failed': ['warn', 'A sign-in of WHOSE failed'],
	'session-revoked': ['', 'WHO ended sessions of WHOSE'],
	granted: ['', 'WHO let WHOSE use STATION'],
	ungranted: ['', 'WHO no longer lets WHOSE use STATION'],
	'station-rotated': ['', 'WHO made a new secret for STATION'],
	'backup-taken': ['warn', 'WHO took a backup'],
	restored: ['warn', 'The gateway was restored from a backup'],
	'cloud-offline': ['warn', 'The cloud is not connected'],
	'records-lost': ['bad', 'Records of the journal were lost'],
	gap: ['bad', 'Records were removed before the cloud had taken them'],
	'gateway-started': ['', 'The gateway started'],
};
for (const kind of ['gateway-stopped', 'clock-changed', 'clock-accepted', 'clock-reset', 'time-zone-changed', 'cloud-online']) {
	kinds[kind] = ['', 'WHO: ' + kind.replaceAll('-', ' ')];
}
for (const noun of ['account', 'station', 'group', 'holiday', 'token']) {
	const name = { account: 'WHOSE', station: 'STATION' }[noun] ?? '';
	for (const verb of ['added', 'changed', 'removed']) kinds[`${noun}-${verb}`] = ['', `WHO ${verb} the ${noun} ${name}`];
}

const of = (pattern) => Object.keys(kinds).filter((kind) => pattern.test(kind));

/** What the journal can be narrowed to. */
export const topics = {
	'': ['Everything', []],
	unlocks: ['Who opened what', ['unlock', 'unlock-throttled', 'not-opened']],
	doors: ['Doors and locks', ['unlock', ...of(/^unlock|^lock|^door|^left|^not/)]],
	alarms: ['Alarms', ['not-opened', 'login-failed', ...Object.keys(kinds).filter((kind) => kinds[kind][0] === 'bad')]],
	signins: ['Sign-ins', of(/^login|^session/)],
	stations: ['Stations', of(/^station|^battery|^refused/)],
	changes: ['Changes', of(/(added|changed|removed|granted|rotated|accepted|reset|taken|restored)$/).filter((kind) => !/^lock|^clock-ch/.test(kind))],
	gateway: ['Gateway', of(/^gateway|^cloud|^clock|^records|^gap/)],
};

/** who names who did something. The signer of a command chooses the name that it claims. */
function who({ by, email, kid, origin }) {
	if (kid) return `${by ?? ''} (signed by ${kid})`;
	return by || email || (origin === 'integration' ? 'Home Assistant' : 'The gateway');
}

function lockName({ station, lock }) {
	const name = stationName(station);
	return lock && live.stations.get(station)?.locks.length !== 1 ? `${name}, ${lock.replace('-', ' ')}` : name;
}

function sentence(record, outcome) {
	const { kind, email, station, count, remote, status, batteryVoltage: volts } = record;
	const names = { WHO: who(record), WHOSE: email || 'somebody unknown', STATUS: status, STATION: station ? stationName(station) : 'stations', LOCK: lockName(record) };
	const ended = kind === 'unlock' && (outcomes[outcome] ?? outcomes.unknown);
	const [tone, text, why] = ended ? [ended[0], `WHO ${ended[1]} LOCK`, ended[2]] : (kinds[kind] ?? ['', 'WHO: ' + kind.replaceAll('-', ' ')]);
	const more = [why, !ended && record.detail, volts && volts.toFixed(2) + ' V', count > 1 && count + ' times', /^login/.test(kind) && remote && 'from ' + remote];
	const said = more.filter(Boolean).join(', ');
	return {
		tone: status === 'jammed' ? 'bad' : tone,
		text: html`${text.split(/([A-Z]{3,})/).map((part) => (names[part] ? html`<b>${names[part]}</b>` : part))}
			${said && html`<small> · ${said}</small>`}`,
	};
}

/** Within these milliseconds an unlock explains that its lock is open. */
const openingTime = 10_000;

/** entries turns records, oldest first, into lines, newest first. One unlock is one line, with the report of its lock that it is open. */
export function entries(records) {
	const found = [];
	const unlocks = new Map();
	const latest = new Map();
	for (const record of records) {
		const lock = record.station + '/' + record.lock;
		const unlock = record.kind === 'unlock';
		const opening = unlock ? unlocks.get(record.commandId) : latest.get(lock);
		const opens = record.status === 'unlocked' && Date.parse(record.time) - opening?.at < openingTime;
		if (opening && (unlock || opens)) {
			opening.all.push(record);
			if (unlock) opening.outcome = record.outcome;
			opening.at = unlock ? Date.parse(record.time) : 0; // one report belongs to it
			continue;
		}
		const entry = { record, outcome: record.outcome, all: [record], at: Date.parse(record.time) };
		found.push(entry);
		if (unlock) unlocks.set(record.commandId, entry) && latest.set(lock, entry);
	}
	return found.reverse().map((entry) => ({ ...entry, ...sentence(entry.record, entry.outcome) }));
}
