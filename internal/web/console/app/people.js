// People: who may sign in, which doors they may open and when, and where they are signed in.

import { post } from './api.js';
import { Group, Groups } from './groups.js';
import { Ask, Block, List, Load } from './parts.js';
import { PasswordChoice, Person, issued } from './person.js';
import { session } from './session.js';
import { Tokens } from './tokens.js';
import { Check, Field, Title, html } from './ui.js';

function AddPerson({ change }) {
	const add = ({ admin, ...fields }) => change(post('/admin/v1/accounts', { ...fields, admin: Boolean(admin) }));
	return html`<${Ask} button="Add a person" act=${add} show=${issued}>
		<${Field} label="E-mail" name="email" type="email" required autocomplete="off" autocapitalize="none" spellcheck="false" />
		<${Check} name="admin">Administrator: may open and change everything<//>
		<${PasswordChoice} />
	<//>`;
}

function about({ email, admin }, grants) {
	const n = grants.filter((grant) => grant.email === email).length;
	const doors = admin ? 'administrator: every door' : n === 0 ? 'no door of their own' : n === 1 ? '1 station' : `${n} stations`;
	return (email === session.account.email ? 'you · ' : '') + doors;
}

export default function People({ args: [name] }) {
	if (name) return name.includes('@') ? html`<${Person} email=${name} />` : html`<${Group} name=${name} />`;
	return html`<${Title}>People<//>
		<div class="sections">
			<${Load} paths=${['accounts', 'grants']}>${({ accounts, grants }, change) => html`
				<${Block} title="Accounts" side=${html`<${AddPerson} change=${change} />`}>
					<${List} of=${accounts} name=${({ email }) => email} href=${({ email }) => '#/people/' + encodeURIComponent(email)} note=${(one) => about(one, grants)} />
				<//>`}
			<//>
			<${Groups} /><${Tokens} />
		</div>`;
}
