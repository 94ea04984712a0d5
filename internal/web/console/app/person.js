// One person: grants, sessions, password, rights.

import { patch, post, put, remove } from './api.js';
import { Hours } from './hours.js';
import { live, stationName } from './live.js';
import { Ask, Block, List, Load, Secrets, inZone, localOf, momentOf, stationOptions } from './parts.js';
import { session } from './session.js';
import { Action, Check, Field, Select, Title, html, useState, useTopic } from './ui.js';

const account = (email, rest = '') => `accounts/${encodeURIComponent(email)}${rest}`;
const path = (email, rest) => '/admin/v1/' + account(email, rest);
const grantPath = (who, what) => `/admin/v1/grants/${encodeURIComponent(who)}/${encodeURIComponent(what)}`;
const whatOf = ({ stationId, stationGroup }) => stationGroup ?? stationId;
const nameOf = ({ stationId, stationGroup }) => (stationGroup ? `All of ${stationGroup}` : stationName(stationId));

/** PasswordChoice asks for a password, or leaves it to the gateway. */
export function PasswordChoice() {
	const [own, setOwn] = useState(false);
	return html`<${Check} checked=${own} onChange=${({ target }) => setOwn(target.checked)}>Choose the password myself<//>
		${own
			? html`<${Field} label="Password" name="password" type="password" required minlength="8" autocomplete="new-password" />`
			: html`<p><small>The gateway makes one and shows it once.</small></p>`}`;
}

/** issued shows a password that the gateway has made. */
export const issued = ({ email, password }) => password && html`<${Secrets} of=${{ 'E-mail': email, Password: password }} />`;

/** terms says in words when a grant holds. */
function terms({ from, until, hours, holidays }, zone) {
	const parts = [
		until && Date.parse(until) <= live.now() && 'ended',
		from && 'from ' + inZone(zone, from), until && 'until ' + inZone(zone, until),
		hours, holidays && (holidays === 'none' ? 'not on holidays' : `on holidays ${holidays}`),
	];
	return parts.filter(Boolean).join(' · ') || 'at any time';
}

function Terms({ grant, zone }) {
	const [holidays, setHolidays] = useState(grant?.holidays && (grant.holidays === 'none' ? 'none' : 'other'));
	const local = (at) => at && localOf(zone, at);
	return html`<${Hours} label="Weekly hours" name="hours" value=${grant?.hours} />
		<${Select} label="On holidays" name="holidays" value=${holidays} onChange=${({ target }) => setHolidays(target.value)}
			options=${[['', 'as on other days'], ['none', 'not at all'], ['other', 'at other hours']]} />
		${holidays === 'other' && html`<${Hours} label="Hours on holidays" name="holidayHours" value=${grant?.holidays ?? 'Mon-Sun 10:00-14:00'} />`}
		<details open=${Boolean(grant?.from || grant?.until)}>
			<summary>First and last day</summary>
			<${Field} label="From" name="from" type="datetime-local" value=${local(grant?.from)} />
			<${Field} label="Until" name="until" type="datetime-local" value=${local(grant?.until)} hint=${`Times are those of ${zone || 'this device'}.`} />
		</details>`;
}

/** Grants are what an account, or a group of accounts, may open. */
export function Grants({ who, admin, grants, groups, timeZone: zone, change }) {
	useTopic('list');
	const mine = groups.filter(({ accounts }) => accounts?.includes(who));
	const moment = (text) => (text ? momentOf(zone, text) : null);
	const store = (what, { from, until, hours, holidays, holidayHours }) => {
		const terms = { from: moment(from), until: moment(until), hours };
		if (holidays) terms.holidays = holidays === 'none' ? holidays : holidayHours;
		return change(put(grantPath(who, what), terms));
	};
	const end = (grant) => change(remove(grantPath(who, whatOf(grant))));
	const free = [
		...groups.filter(({ stations }) => stations).map(({ name }) => [name, `All of ${name}`]),
		...stationOptions(),
	].filter(([what]) => !grants.some((grant) => whatOf(grant) === what));
	const add = html`<${Ask} button="Add a door" act=${({ what, ...fields }) => store(what, fields)}>
		<${Select} label="Station" name="what" options=${free} /><${Terms} zone=${zone} />
	<//>`;
	const edit = (grant) => html`<${Ask} button="Change" submit="Change" kind="plain" aria-label=${`Change ${nameOf(grant)}`} title=${nameOf(grant)}
		act=${(fields) => store(whatOf(grant), fields)}><${Terms} grant=${grant} zone=${zone} /><//>`;
	return html`<${Block} title="Doors" side=${add}>
		${admin ? html`<p><small>An administrator opens every door here; in apps, those below.</small></p>` : grants.length === 0 && html`<p>No door yet.</p>`}
		<${List} of=${grants} name=${nameOf} note=${(grant) => terms(grant, zone)} more=${edit} end=${end} />
		${mine.length > 0 && html`<p>And what these groups may open:</p><${List} of=${mine} href=${({ name }) => '#/people/' + encodeURIComponent(name)} />`}
	<//>`;
}

function Sessions({ email, sessions, timeZone, change }) {
	return html`<${Block} title="Signed in" side=${sessions.length > 1 && html`<${Action} act=${() => change(post(path(email, '/revoke')))}>End all<//>`}>
		${sessions.length === 0 && html`<p>Nowhere.</p>`}
		<${List} of=${sessions} label="End" name=${({ remote, created }) => `${remote} since ${inZone(timeZone, created)}`}
			end=${({ sessionId }) => change(remove(path(email, '/sessions/' + sessionId)))} />
	<//>`;
}

function Rights({ email, admin, change }) {
	const self = email === session.account.email;
	const setPassword = async ({ password, end }) => {
		const answer = await put(path(email, '/password'), { password });
		if (end) await post(path(email, '/revoke'));
		await change();
		return { email, ...answer };
	};
	const dismiss = async () => {
		await remove(path(email));
		location.hash = '#/people';
	};
	return html`<${Block} title="Account">
		<div class="actions">
			<a class="button" href=${'#/journal?account=' + encodeURIComponent(email)}>In the journal</a>
			<${Ask} button="New password" submit="Set the password" act=${setPassword} show=${issued}>
				<${PasswordChoice} /><${Check} name="end">End all sessions too<//>
			<//>
			${!self && html`<${Action} act=${() => change(patch(path(email), { admin: !admin }))}>${admin ? 'No administrator any more' : 'Make an administrator'}<//>
				<${Ask} button="Remove" kind="danger" title="Remove this person?" submit="Remove" act=${dismiss}>
					<p><strong>${email}</strong> is signed out everywhere and may open no door from now on. The journal stays.</p>
				<//>`}
		</div>
	<//>`;
}

export function Person({ email }) {
	return html`<${Title} back="People">${email}<//>
		<${Load} paths=${['status', 'groups', 'accounts', 'grants', account(email, '/sessions')]}>${({ accounts, grants, ...rest }, change) => {
			const own = { ...rest, change, email, who: email, admin: accounts.find((one) => one.email === email)?.admin, grants: grants.filter((one) => one.email === email) };
			return html`<div class="sections"><${Grants} ...${own} /><${Sessions} ...${own} /><${Rights} ...${own} /></div>`;
		}}<//>`;
}
