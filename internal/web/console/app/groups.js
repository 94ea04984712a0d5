// Groups of people and of stations, and the holidays of the site.

import { get, patch, post, remove } from './api.js';
import { live } from './live.js';
import { Block, Confirm, Rows, choices, stationName, useFresh } from './parts.js';
import { Grants } from './person.js';
import { Badge, Field, Form, Problem, Title, announce, html, useState } from './ui.js';

/** Group is the page of one group. */
export function Group({ name }) {
	const [asking, ask] = useState(false);
	const path = '/admin/v1/groups/' + encodeURIComponent(name);
	const { value, error, again } = useFresh(async (signal) => {
		const all = ['groups', 'accounts', 'grants', 'status'].map((one) => get('/admin/v1/' + one, { signal }));
		const [{ groups }, { accounts }, { grants }, status] = await Promise.all(all);
		const group = groups.find((one) => one.name === name);
		if (!group) throw new Error('There is no such group.');
		return { who: name, group, groups, accounts, grants: grants.filter((one) => one.accountGroup === name), zone: status.timeZone, changed: () => again() };
	});
	const kind = value?.group.stations ? 'stations' : 'accounts';
	const members = value?.group[kind] ?? [];
	const label = (member) => (kind === 'stations' ? stationName(member, live.stations) : member);
	const change = async (verb, member) => {
		await patch(path, { [verb]: { [kind]: [kind === 'stations' ? Number(member) : member] } });
		announce('The group is changed.');
		await again();
	};
	const others = kind === 'stations'
		? choices([...live.stations.values()].filter(({ stationId }) => !members.includes(stationId)))
		: value?.accounts.filter(({ email }) => !members.includes(email)).map(({ email }) => html`<option key=${email} value=${email}>${email}</option>`);
	const dissolve = async () => {
		await remove(path);
		location.hash = '#/people';
	};
	return html`<${Title} back=${{ href: '#/people', text: '← People' }}>${name}<//>
		<${Problem} text=${error} again=${again} />
		${!value && !error && html`<p class="wait">Loading…</p>`}
		${value && html`<div class="sections">
			<${Block} title="Members" side=${html`<button type="button" class="danger" onClick=${() => ask(true)}>Remove the group</button>`}>
				<${Rows} of=${members} label="Remove" name=${label} words=${label} end=${(member) => change('remove', member)} />
				${others.length > 0 && html`<${Form} submit="Add" onSubmit=${({ member }) => change('add', member)}>
					<${Field} label="Another member" as="select" name="member">${others}<//>
				<//>`}
			<//>
			${kind === 'accounts' && html`<${Grants} ...${value} />`}
		</div>`}
		${asking && html`<${Confirm} title="Remove this group?" submit="Remove" danger act=${dissolve} done="The group is removed." close=${() => ask(false)}>
			<p>What it allows ends with it. Its members stay.</p><//>`}`;
}

function AddGroup({ close }) {
	const add = async ({ name, kind }) => {
		const group = await post('/admin/v1/groups', { name, [kind]: [] });
		location.hash = '#/people/' + encodeURIComponent(group.name);
	};
	return html`<${Confirm} title="Add a group" submit="Add" act=${add} done="The group is added." close=${close}>
		<${Field} label="Name" name="name" required autocomplete="off" />
		<${Field} label="Of" as="select" name="kind"><option value="accounts">people</option><option value="stations">stations</option><//>
	<//>`;
}

function AddHoliday({ close, changed }) {
	const add = async ({ name, dates, file }) => {
		if (file.size) await post('/admin/v1/holidays/import', { ics: await file.text() });
		else await post('/admin/v1/holidays', { name, dates: dates.split(',').map((date) => date.trim()) });
		await changed();
	};
	return html`<${Confirm} title="Add holidays" submit="Add" act=${add} done="The holidays are stored." close=${close}>
		<${Field} label="Name" name="name" autocomplete="off" />
		<${Field} label="Dates" name="dates" autocomplete="off" placeholder="12-25, 12-26" hint="2026-12-24, or 2026-12-24..2027-01-03, or 12-25 for every year." />
		<${Field} label="Or a calendar file (.ics)" name="file" type="file" accept=".ics,text/calendar" />
	<//>`;
}

/** Groups lists the groups and the holidays. */
export function Groups() {
	const [adding, add] = useState('');
	const { value, error, again } = useFresh(async (signal) => {
		const all = await Promise.all(['groups', 'holidays'].map((one) => get('/admin/v1/' + one, { signal })));
		return Object.assign({}, ...all);
	});
	const end = async ({ name }) => {
		await remove('/admin/v1/holidays/' + encodeURIComponent(name));
		announce('The holiday is removed.');
		await again();
	};
	const close = () => add('');
	return html`<${Block} title="Groups" side=${html`<button type="button" onClick=${() => add('group')}>Add a group</button>`}>
			<${Problem} text=${error} again=${again} />
			<ul class="list">${value?.groups.map(({ name, accounts, stations }) => html`<li key=${name}><a class="row" href=${'#/people/' + encodeURIComponent(name)}>
				<span class="name">${name}</span><span class="facts"><${Badge}>${accounts ? 'People' : 'Stations'}<//> <span class="soft">${(accounts ?? stations).length}</span></span></a></li>`)}</ul>
		<//>
		<${Block} title="Holidays" side=${html`<button type="button" onClick=${() => add('holiday')}>Add holidays</button>`}>
			<p class="soft">A grant may say that other hours hold on them, or none.</p>
			${value && html`<${Rows} of=${value.holidays} label="Remove" name=${({ name }) => name} end=${end}
				words=${({ name, dates }) => html`<span class="name">${name}</span><br /><span class="soft">${dates.join(', ')}</span>`} />`}
		<//>
		${adding === 'group' && html`<${AddGroup} close=${close} />`}
		${adding === 'holiday' && html`<${AddHoliday} close=${close} changed=${again} />`}`;
}
