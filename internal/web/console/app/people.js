// People: accounts, groups, holidays of the site, and the tokens of apps; the page of one
// person or group with what it may open and when, sessions, password, members.

import { patch, post, put, remove, url } from './api.js';
import { live, stationName } from './live.js';
import { session } from './session.js';
import { Action, Ask, Block, Check, Field, Form, List, Load, Options, Removal, Secrets, Select, Title, html, inZone, localOf, momentOf, stationOptions, useState, useTopic } from './ui.js';

const pageOf = ({ email, name }) => url`#/people/${email ?? name}`;
const whatOf = ({ stationId, stationGroup }) => stationGroup ?? stationId;
const nameOf = ({ stationId, stationGroup }) => (stationGroup ? `All of ${stationGroup}` : stationName(stationId));

function NewPassword() {
	return html`<${Field} label="Password" name="password" type="password" minlength="8" autocomplete="new-password" hint="Empty: the gateway makes one and shows it once." />`;
}

const plural = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;

const issued = ({ email, password }) => password && html`<${Secrets} of=${{ 'E-mail': email, Password: password }} />`;

const weekdays = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'].map((day) => [day, day]);

// Hours is a field for weekly hours, such as "Mon-Fri 08:00-18:00, Sat 22:00-04:00". Without any, its value is empty.
function Hours({ label, name, value = '', empty = '' }) {
	const [spans, set] = useState(() => Array.from(value.matchAll(/(\w{3})(?:-(\w{3}))? ([\d:]+)-([\d:]+)/g), ([, first, last = first, start, end]) => [first, last, start, end]));
	const text = spans.map(([first, last, start, end]) => `${first === last ? first : first + '-' + last} ${start}-${end}`).join(', ') || empty;
	const part = (i, at, what) => {
		const change = ({ target }) => set(spans.with(i, spans[i].with(at, target.value)));
		const props = { 'aria-label': `${what}, hours ${i + 1}`, value: spans[i][at].replace('24:00', '00:00'), onInput: change };
		return at < 2 ? html`<select ...${props}><${Options} of=${weekdays} /></select>` : html`<input type="time" required ...${props} />`;
	};
	return html`<fieldset class="field">
		<legend>${label}</legend>
		<input type="hidden" name=${name} value=${text} />
		${spans.length === 0 && html`<p>At ${empty === 'none' ? 'no' : 'any'} hour.</p>`}
		${spans.map((_, i) => html`<div class="span" key=${i}>
			${part(i, 0, 'From day')} – ${part(i, 1, 'To day')} ${part(i, 2, 'From')} – ${part(i, 3, 'To')}
			<button type="button" class="plain" aria-label=${`Remove hours ${i + 1}`} onClick=${() => set(spans.toSpliced(i, 1))}>Remove</button>
		</div>`)}
		<button type="button" onClick=${() => set([...spans, ['Mon', 'Fri', '08:00', '18:00']])}>${spans.length ? 'More hours' : 'Only at certain hours'}</button>
	</fieldset>`;
}

function terms({ from, until, hours, holidays }, zone) {
	const parts = [
		until && Date.parse(until) <= live.now() && 'ended',
		from && 'from ' + inZone(zone, from), until && 'until ' + inZone(zone, until),
		hours === 'none' ? 'at no hour' : hours, holidays && (holidays === 'none' ? 'not on holidays' : `on holidays ${holidays}`),
	];
	return parts.filter(Boolean).join(' · ') || 'at any time';
}

function Terms({ grant = {}, zone }) {
	const { hours, from, until } = grant;
	const [holidays, setHolidays] = useState(grant.holidays && (grant.holidays === 'none' ? 'none' : 'other'));
	const local = (at) => at && localOf(zone, at);
	return html`<${Hours} label="Weekly hours" name="hours" value=${hours} empty=${hours === 'none' ? hours : ''} />
		<${Select} label="On holidays" name="holidays" value=${holidays} onChange=${({ target }) => setHolidays(target.value)}
			options=${[['', 'as on other days'], ['none', 'not at all'], ['other', 'at other hours']]} />
		${holidays === 'other' && html`<${Hours} label="Hours on holidays" name="holidayHours" value=${/\d/.test(grant.holidays) ? grant.holidays : 'Mon-Sun 10:00-14:00'} empty="00:00-24:00" />`}
		<details open=${Boolean(from || until)}>
			<summary>First and last day</summary>
			<${Field} label="From" name="from" type="datetime-local" value=${local(from)} />
			<${Field} label="Until" name="until" type="datetime-local" value=${local(until)} hint=${`Times are those of ${zone || 'this device'}.`} />
		</details>`;
}

function Grants({ who, admin, grants, groups, timeZone: zone, change }) {
	useTopic('list');
	const moment = (text) => (text ? momentOf(zone, text) : null);
	const pathOf = (what) => url`grants/${who}/${what}`;
	const store = (what, { from, until, hours, holidays, holidayHours }) => change(put(pathOf(what), {
		from: moment(from), until: moment(until), hours, holidays: holidays === 'other' ? holidayHours : holidays || undefined,
	}));
	const mine = groups.filter(({ accounts }) => accounts?.includes(who));
	const free = [...groups.filter(({ stations }) => stations).map(({ name }) => [name, `All of ${name}`]), ...stationOptions()]
		.filter(([what]) => !grants.some((grant) => whatOf(grant) === what));
	const add = html`<${Ask} button="Add a door" act=${({ what, ...fields }) => store(what, fields)}>
		<${Select} label="Station" name="what" options=${free} /><${Terms} zone=${zone} />
	<//>`;
	const edit = (grant) => html`<${Ask} button="Change" submit="Change" kind="plain" aria-label=${`Change ${nameOf(grant)}`} title=${nameOf(grant)}
		act=${(fields) => store(whatOf(grant), fields)}><${Terms} grant=${grant} zone=${zone} /><//>`;
	return html`<${Block} title="Doors" side=${add}>
		${admin ? html`<p><small>An administrator opens every door here; in apps, those below.</small></p>` : grants.length === 0 && html`<p>No door yet.</p>`}
		<${List} of=${grants} name=${nameOf} note=${(grant) => terms(grant, zone)} more=${edit} end=${(grant) => change(remove(pathOf(whatOf(grant))))} />
		${mine.length > 0 && html`<p>And what these groups may open:</p><${List} of=${mine} href=${pageOf} />`}
	<//>`;
}

function Sessions({ path, sessions, timeZone, change }) {
	const name = ({ client, current }) => (client || 'Unknown browser or app') + (current ? ' · This device' : '');
	const note = ({ lastUsed, created, remote }) =>
		`last used ${lastUsed ? inZone(timeZone, lastUsed) : 'at an unknown time'} · signed in ${inZone(timeZone, created)} from ${remote}`;
	return html`<${Block} title="Signed in" side=${sessions.length > 1 && html`<${Action} act=${() => change(post(path + '/revoke'))}>End all<//>`}>
		${sessions.length === 0 && html`<p>Nowhere.</p>`}
		<${List} of=${sessions} label="End" name=${name} note=${note}
			end=${({ sessionId }) => change(remove(`${path}/sessions/${sessionId}`))} />
	<//>`;
}

function Account({ path, who, admin, sessions, change }) {
	const own = who === session.account.email;
	const others = sessions.filter(({ current }) => !current).length;
	const setPassword = ({ password, present, end }) => change(put(path + '/password', { password, present, endSessions: Boolean(end) }));
	const set = (answer) => html`<p>The password is set. ${plural(answer.ended, 'session')} ended.</p>${issued(answer)}`;
	return html`<${Block} title="Account">
		<div class="actions">
			<a class="button" href=${url`#/journal?account=${who}`}>In the journal</a>
			<${Ask} button="New password" submit="Set the password" act=${setPassword} show=${set}>
				${own && html`<${Field} label="Present password" name="present" type="password" required autocomplete="current-password" />`}
				<${NewPassword} />
				<${Check} name="end" checked>Sign out everywhere${own && ' else'} (${others})<//>
			<//>
			${!own && html`<${Action} act=${() => change(patch(path, { admin: !admin }))}>${admin ? 'Make an ordinary account' : 'Make an administrator'}<//>
				<${Removal} path=${path} title="Remove this person?" next="#/people">
					<p><strong>${who}</strong> is signed out everywhere and may open no door from now on. The journal stays.</p>
				<//>`}
		</div>
	<//>`;
}

function Members({ path, group, accounts, change }) {
	const kind = group.stations ? 'stations' : 'accounts';
	const all = group.stations ? stationOptions() : accounts.map(({ email }) => [email, email]);
	const others = all.filter(([member]) => !group[kind].includes(member));
	const edit = (verb, member) => change(patch(path, { [verb]: { [kind]: [group.stations ? Number(member) : member] } }));
	return html`<${Block} title="Members">
		<${List} of=${group[kind]} name=${(member) => (group.stations ? stationName(member) : member)} end=${(member) => edit('remove', member)} />
		${others.length > 0 && html`<${Form} submit="Add" onSubmit=${({ member }) => edit('add', member)}>
			<${Select} label="Another member" name="member" options=${others} />
		<//>`}
	<//>`;
}

function Person({ who }) {
	const person = who.includes('@');
	const path = person ? url`accounts/${who}` : url`groups/${who}`;
	const paths = ['status', 'groups', 'accounts', 'grants', ...(person ? [path + '/sessions'] : [])];
	return html`<${Title} back="People">${who}<//>
		<${Load} paths=${paths}>${(all, change) => {
			const group = !person && all.groups.find(({ name }) => name === who);
			const admin = all.accounts.find(({ email }) => email === who)?.admin;
			const own = { ...all, change, path, who, group, admin, grants: all.grants.filter((one) => (one.email ?? one.accountGroup) === who) };
			if (!person && !group) return html`<p>There is no such group.</p>`;
			return html`<div class="sections">
				${group && html`<${Members} ...${own} />`}
				${(person || group.accounts) && html`<${Grants} ...${own} />`}
				${person && html`<${Sessions} ...${own} /><${Account} ...${own} />`}
				${group && html`<${Block} title="Group"><${Removal} path=${path} title="Remove this group?" next="#/people"><p>What it allows ends with it. Its members stay.</p><//><//>`}
			</div>`;
		}}<//>`;
}

function Accounts({ accounts, grants, change }) {
	const add = html`<${Ask} button="Add a person" show=${issued}
		act=${({ admin, ...fields }) => change(post('accounts', { ...fields, admin: Boolean(admin) }))}>
		<${Field} label="E-mail" name="email" type="email" required autocapitalize="none" spellcheck="false" />
		<${Check} name="admin">Administrator: may open and change everything<//>
		<${NewPassword} />
	<//>`;
	const note = ({ email, admin }) => {
		const doors = grants.filter((grant) => grant.email === email).length;
		return (email === session.account.email ? 'you · ' : '') + (admin ? 'administrator: every door' : `doors: ${doors}`);
	};
	return html`<${Block} title="Accounts" side=${add}><${List} of=${accounts} name=${({ email }) => email} href=${pageOf} note=${note} /><//>`;
}

function Groups({ groups }) {
	const create = async ({ name, kind }) => (location.hash = pageOf(await patch(url`groups/${name}`, { add: { [kind]: [] } })));
	const add = html`<${Ask} button="Add a group" act=${create}>
		<${Field} label="Name" name="name" required />
		<${Select} label="Of" name="kind" options=${[['accounts', 'people'], ['stations', 'stations']]} />
	<//>`;
	const note = ({ accounts, stations }) => (accounts ? `people: ${accounts.length}` : `stations: ${stations.length}`);
	return html`<${Block} title="Groups" side=${add}><${List} of=${groups} href=${pageOf} note=${note} /><//>`;
}

async function addHolidays({ name, dates, file }) {
	return post('holidays', file.size ? { ics: await file.text() } : { name, dates: dates.trim().split(/\s*,\s*/) });
}

function Holidays({ holidays, change }) {
	const add = html`<${Ask} button="Add holidays" act=${(fields) => change(addHolidays(fields))}>
		<${Field} label="Name" name="name" />
		<${Field} label="Dates" name="dates" placeholder="12-25, 12-26" hint="2026-12-24, or 2026-12-24..2027-01-03, or 12-25 for every year." />
		<${Field} label="Or a calendar file (.ics)" name="file" type="file" accept=".ics,text/calendar" />
	<//>`;
	return html`<${Block} title="Holidays" side=${add}>
		<p><small>On holidays a person may have other hours for a door, or none.</small></p>
		<${List} of=${holidays} note=${({ dates }) => dates.join(', ')} end=${({ name }) => change(remove(url`holidays/${name}`))} />
	<//>`;
}

function scopesText(scopes) {
	const unlock = scopes.find((scope) => scope.startsWith('unlock:'))?.slice('unlock:'.length);
	if (!unlock) return scopes.length ? 'sees every station' : 'opens nothing any more';
	return unlock === '*' ? 'opens every door' : 'opens ' + unlock.split(',').map(stationName).join(', ');
}

function Tokens({ tokens, timeZone, change }) {
	useTopic('list');
	const create = ({ name, until }, form) => {
		const doors = form.getAll('door');
		const scopes = ['read', ...(doors.length ? ['unlock:' + (doors.includes('*') ? '*' : doors)] : [])];
		return change(post('tokens', { name, scopes, until: until ? momentOf(timeZone, until + 'T00:00') : undefined }));
	};
	const show = ({ name, token }) => html`<${Secrets} of=${{ [name]: token }} /><p>Enter it in the app now. <a href="/docs#local" target="_blank">How an app uses it</a></p>`;
	const add = html`<${Ask} button="Add a token" act=${create} show=${show}>
		<${Field} label="Name" name="name" required maxlength="64" hint="Of the app that will use it; the journal says so." />
		<${Field} label="Until" name="until" type="date" hint="Empty: without an end." />
		<fieldset class="field"><legend>It sees every station, and may open</legend>
			${[['*', 'every door'], ...stationOptions()].map(([id, name]) => html`<${Check} key=${id} name="door" value=${id}>${name}<//>`)}
		</fieldset>
	<//>`;
	const note = ({ scopes, lastUsed, until }) =>
		[scopesText(scopes), lastUsed ? 'last used ' + inZone(timeZone, lastUsed) : 'never used', until && 'ends ' + inZone(timeZone, until)].filter(Boolean).join(' · ');
	return html`<${Block} title="Apps" side=${add}>
		<p><small>A token lets an app see or open doors without anybody’s password. <a href="/docs">The API for apps</a></small></p>
		<${List} of=${tokens} note=${note} end=${({ name }) => change(remove(url`tokens/${name}`))} />
	<//>`;
}

export default function People({ args: [name] }) {
	if (name) return html`<${Person} who=${name} />`;
	return html`<${Title}>People<//>
		<${Load} paths=${['status', 'accounts', 'grants', 'groups', 'holidays', 'tokens']}>${(status, change) => {
			const all = { ...status, change };
			return html`<div class="sections"><${Accounts} ...${all} /><${Groups} ...${all} /><${Holidays} ...${all} /><${Tokens} ...${all} /></div>`;
		}}<//>`;
}
