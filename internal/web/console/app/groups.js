// Groups of people and of stations, and the holidays of the site.

import { patch, post, remove } from './api.js';
import { stationName } from './live.js';
import { Ask, Block, List, Load, stationOptions } from './parts.js';
import { Grants } from './person.js';
import { Field, Form, Select, Title, html } from './ui.js';

const groupPage = ({ name }) => '#/people/' + encodeURIComponent(name);

function Members({ group, accounts, change }) {
	const path = '/admin/v1/groups/' + encodeURIComponent(group.name);
	const kind = group.stations ? 'stations' : 'accounts';
	const members = group[kind];
	const edit = (verb, member) => change(patch(path, { [verb]: { [kind]: [kind === 'stations' ? Number(member) : member] } }));
	const dissolve = async () => {
		await remove(path);
		location.hash = '#/people';
	};
	const all = kind === 'stations' ? stationOptions() : accounts.map(({ email }) => [email, email]);
	const others = all.filter(([member]) => !members.includes(member));
	const removal = html`<${Ask} button="Remove the group" kind="danger" title="Remove this group?" submit="Remove" act=${dissolve}>
		<p>What it allows ends with it. Its members stay.</p>
	<//>`;
	return html`<${Block} title="Members" side=${removal}>
		<${List} of=${members} name=${(member) => (kind === 'stations' ? stationName(member) : member)} end=${(member) => edit('remove', member)} />
		${others.length > 0 && html`<${Form} submit="Add" onSubmit=${({ member }) => edit('add', member)}>
			<${Select} label="Another member" name="member" options=${others} />
		<//>`}
	<//>`;
}

export function Group({ name }) {
	return html`<${Title} back="People">${name}<//>
		<${Load} paths=${['status', 'groups', 'accounts', 'grants']}>${({ groups, grants, ...rest }, change) => {
			const group = groups.find((one) => one.name === name);
			if (!group) return html`<p>There is no such group.</p>`;
			const own = { ...rest, change, group, groups, who: name, grants: grants.filter((one) => one.accountGroup === name) };
			return html`<div class="sections"><${Members} ...${own} />${group.accounts && html`<${Grants} ...${own} />`}</div>`;
		}}<//>`;
}

async function addGroup({ name, kind }) {
	location.hash = groupPage(await patch('/admin/v1/groups/' + encodeURIComponent(name), { add: { [kind]: [] } }));
}

async function addHolidays({ name, dates, file }) {
	return post('/admin/v1/holidays', file.size ? { ics: await file.text() } : { name, dates: dates.split(',').map((date) => date.trim()) });
}

function Holidays({ holidays, change }) {
	const add = html`<${Ask} button="Add holidays" act=${(fields) => change(addHolidays(fields))}>
		<${Field} label="Name" name="name" autocomplete="off" />
		<${Field} label="Dates" name="dates" autocomplete="off" placeholder="12-25, 12-26" hint="2026-12-24, or 2026-12-24..2027-01-03, or 12-25 for every year." />
		<${Field} label="Or a calendar file (.ics)" name="file" type="file" accept=".ics,text/calendar" />
	<//>`;
	const end = ({ name }) => change(remove('/admin/v1/holidays/' + encodeURIComponent(name)));
	return html`<${Block} title="Holidays" side=${add}>
		<p><small>A grant may say that other hours hold on them, or none.</small></p>
		<${List} of=${holidays} note=${({ dates }) => dates.join(', ')} end=${end} />
	<//>`;
}

export function Groups() {
	const add = html`<${Ask} button="Add a group" act=${addGroup}>
		<${Field} label="Name" name="name" required autocomplete="off" />
		<${Select} label="Of" name="kind" options=${[['accounts', 'people'], ['stations', 'stations']]} />
	<//>`;
	return html`<${Load} paths=${['groups', 'holidays']}>${({ groups, holidays }, change) => html`
		<${Block} title="Groups" side=${add}>
			<${List} of=${groups} href=${groupPage} note=${({ accounts, stations }) => (accounts ? `people: ${accounts.length}` : `stations: ${stations.length}`)} />
		<//>
		<${Holidays} holidays=${holidays} change=${change} />`}
	<//>`;
}
