// One person: grants, sessions, password, rights.

import { get, patch, post, put, remove } from './api.js';
import { Hours } from './hours.js';
import { live } from './live.js';
import { Block, Confirm, Rows, choices, inZone, localOf, momentOf, stationName, useFresh } from './parts.js';
import { session } from './session.js';
import { Badge, Dialog, Field, Form, Problem, Secret, Title, announce, html, useState, useTask, useTopic } from './ui.js';

const account = (email, rest = '') => `/admin/v1/accounts/${encodeURIComponent(email)}${rest}`;
const grantPath = (who, what) => `/admin/v1/grants/${encodeURIComponent(who)}/${encodeURIComponent(what)}`;
const whatOf = ({ stationId, stationGroup }) => stationGroup ?? stationId;
const nameOf = ({ stationId, stationGroup }) => (stationGroup ? `All of ${stationGroup}` : stationName(stationId, live.stations));

/** Issued shows a password that is shown this once. */
export function Issued({ email, password, close }) {
	return html`<${Dialog} title="Password" onClose=${close}>
		<p>This password is shown this once.</p>
		<dl><${Secret} name="E-mail" text=${email} /><${Secret} name="Password" text=${password} /></dl>
		<button type="button" class="primary" onClick=${close}>Done</button>
	<//>`;
}

/** PasswordChoice asks for a password, or leaves it to the gateway. */
export function PasswordChoice() {
	const [own, setOwn] = useState(false);
	return html`<label class="check"><input type="checkbox" checked=${own} onChange=${(event) => setOwn(event.target.checked)} /> Choose the password myself</label>
		${own
			? html`<${Field} label="Password" name="password" type="password" required minlength="8" autocomplete="new-password" />`
			: html`<p class="soft">The gateway makes one and shows it once.</p>`}`;
}

/** terms says in words when a grant holds. */
function terms({ from, until, hours, holidays }, zone) {
	return [from && 'from ' + inZone(zone, from), until && 'until ' + inZone(zone, until), hours, holidays && (holidays === 'none' ? 'not on holidays' : `on holidays ${holidays}`)].filter(Boolean).join(' · ') || 'At any time';
}

function GrantDialog({ who, grant, taken, groups, zone, close, changed }) {
	const [holidays, setHolidays] = useState(grant?.holidays && (grant.holidays === 'none' ? 'none' : 'other'));
	const local = (at) => at && localOf(zone, at);
	const moment = (text) => (text ? momentOf(zone, text) : null);
	const store = async ({ what, from, until, hours, ...fields }) => {
		const terms = { from: moment(from), until: moment(until), hours };
		if (holidays) terms.holidays = holidays === 'none' ? 'none' : fields.holidays;
		await put(grantPath(who, what), terms);
		await changed();
	};
	const free = (what) => !taken.includes(what);
	return html`<${Confirm} title=${grant ? nameOf(grant) : 'Add a door'} submit=${grant ? 'Change' : 'Add'} act=${store} done="The grant is stored." close=${close}>
		${grant
			? html`<input type="hidden" name="what" value=${whatOf(grant)} />`
			: html`<${Field} label="Station" as="select" name="what">
					${groups.filter(({ stations, name }) => stations && free(name)).map(({ name }) => html`<option key=${name} value=${name}>All of ${name}</option>`)}
					${choices([...live.stations.values()].filter(({ stationId }) => free(stationId)))}
				<//>`}
		<${Hours} label="Weekly hours" name="hours" value=${grant?.hours} />
		<${Field} label="On holidays" as="select" value=${holidays} onChange=${(event) => setHolidays(event.target.value)}>
			<option value="">as on other days</option><option value="none">not at all</option><option value="other">at other hours</option>
		<//>
		${holidays === 'other' && html`<${Hours} label="Hours on holidays" name="holidays" value=${grant?.holidays ?? 'Mon-Sun 10:00-14:00'} />`}
		<details open=${Boolean(grant?.from || grant?.until)}>
			<summary>First and last day</summary>
			<${Field} label="From" name="from" type="datetime-local" value=${local(grant?.from)} />
			<${Field} label="Until" name="until" type="datetime-local" value=${local(grant?.until)} hint=${`Times are those of ${zone || 'this device'}.`} />
		</details>
	<//>`;
}

/** Grants are what an account, or a group of accounts, may open. */
export function Grants({ who, admin, grants, groups, zone, changed }) {
	useTopic('list');
	const [editing, edit] = useState(null);
	const mine = groups.filter(({ accounts }) => accounts?.includes(who));
	const end = async (grant) => {
		await remove(grantPath(who, whatOf(grant)));
		announce('The grant has ended.');
		await changed();
	};
	const words = (grant) => html`<span class="name">${nameOf(grant)}</span>
		${grant.until && Date.parse(grant.until) <= live.now() && html` <${Badge} tone="warn">Ended<//>`}<br /><span class="soft">${terms(grant, zone)}</span>`;
	return html`<${Block} title="Doors" side=${html`<button type="button" onClick=${() => edit({})}>Add a door</button>`}>
		${admin ? html`<p class="soft">An administrator opens every door here; in apps, those below.</p>` : grants.length === 0 && html`<p class="soft">No door yet.</p>`}
		<${Rows} of=${grants} words=${words} end=${end} label="Remove" name=${nameOf}>
			${(grant) => html`<button type="button" class="plain" onClick=${() => edit(grant)} aria-label=${`Change ${nameOf(grant)}`}>Change</button>`}
		<//>
		${mine.length > 0 && html`<p class="soft">And what these groups may open: ${mine.map(({ name }) => html`<a class="back" key=${name} href=${'#/people/' + encodeURIComponent(name)}>${name}</a> `)}</p>`}
		${editing && html`<${GrantDialog} who=${who} grant=${whatOf(editing) && editing} taken=${grants.map(whatOf)} groups=${groups}
			zone=${zone} changed=${changed} close=${() => edit(null)} />`}
	<//>`;
}

function Sessions({ email, sessions, zone, changed }) {
	const ended = async (request) => {
		await request;
		announce('Ended.');
		await changed();
	};
	const [endAll, , error] = useTask(() => ended(post(account(email, '/revoke'))));
	const since = (one) => 'since ' + inZone(zone, one.created);
	return html`<${Block} title="Signed in" side=${sessions.length > 1 && html`<button type="button" onClick=${endAll}>End all</button>`}>
		${sessions.length === 0 && html`<p class="soft">Nowhere.</p>`}
		<${Rows} of=${sessions} label="End" name=${(one) => `${one.remote} ${since(one)}`} end=${(one) => ended(remove(account(email, '/sessions/' + one.sessionId)))}
			words=${(one) => html`<span class="name">${one.remote}</span><br /><span class="soft">${since(one)}</span>`} />
		<${Problem} text=${error} />
	<//>`;
}

function NewPassword({ email, close }) {
	const [issued, setIssued] = useState(null);
	if (issued) return html`<${Issued} email=${email} password=${issued} close=${close} />`;
	const store = async ({ password, end }) => {
		const answer = await put(account(email, '/password'), { password });
		if (end) await post(account(email, '/revoke'));
		announce('The password is set.');
		answer.password ? setIssued(answer.password) : close();
	};
	return html`<${Dialog} title="New password" onClose=${close}>
		<${Form} submit="Set the password" cancel=${close} onSubmit=${store}>
			<${PasswordChoice} />
			<label class="check"><input type="checkbox" name="end" /> End all sessions too</label>
		<//>
	<//>`;
}

function Rights({ email, admin, changed }) {
	const [asking, ask] = useState('');
	const self = email === session.account.email;
	const close = () => {
		ask('');
		changed();
	};
	const [toggle, , error] = useTask(async () => {
		await patch(account(email), { admin: !admin });
		announce(admin ? 'No administrator any more.' : 'Now an administrator.');
		await changed();
	});
	const dismiss = async () => {
		await remove(account(email));
		location.hash = '#/people';
	};
	return html`<${Block} title="Account">
		<label class="check"><input type="checkbox" checked=${admin} onChange=${toggle} disabled=${self} />
			<span>Administrator<br /><small>${self ? 'Only another one can change that.' : 'May open and change everything.'}</small></span></label>
		<${Problem} text=${error} />
		<div class="actions">
			<a class="button" href=${'#/journal?account=' + encodeURIComponent(email)}>In the journal</a>
			<button type="button" onClick=${() => ask('password')}>New password</button>
			${!self && html`<button type="button" class="danger" onClick=${() => ask('removal')}>Remove</button>`}
		</div>
		${asking === 'password' && html`<${NewPassword} email=${email} close=${close} />`}
		${asking === 'removal' && html`<${Confirm} title="Remove this person?" submit="Remove" danger act=${dismiss} done="Removed." close=${() => ask('')}>
			<p><strong>${email}</strong> is signed out everywhere and may open no door from now on. The journal stays.</p><//>`}
	<//>`;
}

/** Person is the page of one account. */
export function Person({ email }) {
	const { value, error, again } = useFresh(async (signal) => {
		const all = ['/admin/v1/accounts', '/admin/v1/grants', account(email, '/sessions'), '/admin/v1/status', '/admin/v1/groups'];
		const [{ accounts }, { grants }, { sessions }, status, { groups }] = await Promise.all(all.map((one) => get(one, { signal })));
		const { admin } = accounts.find((one) => one.email === email);
		return { email, who: email, admin, groups, grants: grants.filter((one) => one.email === email), sessions, zone: status.timeZone, changed: () => again() };
	});
	return html`<${Title} back=${{ href: '#/people', text: '← People' }}>${email}<//>
		<${Problem} text=${error} again=${again} />
		${!value && !error && html`<p class="wait">Loading…</p>`}
		${value && html`<div class="sections"><${Grants} ...${value} /><${Sessions} ...${value} /><${Rights} ...${value} /></div>`}`;
}
