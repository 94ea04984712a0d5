// People: who may sign in, which doors they may open and when, and where they are signed in.

import { get, post } from './api.js';
import { Group, Groups } from './groups.js';
import { useFresh } from './parts.js';
import { Person, Issued, PasswordChoice } from './person.js';
import { session } from './session.js';
import { Tokens } from './tokens.js';
import { Badge, Dialog, Field, Form, Problem, Title, html, useState } from './ui.js';

function AddPerson({ close, added }) {
	const [issued, setIssued] = useState(null);
	if (issued) return html`<${Issued} ...${issued} close=${close} />`;
	const add = async ({ email, password, admin }) => {
		const account = await post('/admin/v1/accounts', { email, password, admin: Boolean(admin) });
		added();
		account.password ? setIssued(account) : close();
	};
	return html`<${Dialog} title="Add a person" onClose=${close}>
		<${Form} submit="Add" cancel=${close} onSubmit=${add}>
			<${Field} label="E-mail" name="email" type="email" required autocomplete="off" autocapitalize="none" spellcheck="false" />
			<label class="check"><input type="checkbox" name="admin" /> Administrator: may open and change everything</label>
			<${PasswordChoice} />
		<//>
	<//>`;
}

function doorsOf({ email, admin }, grants) {
	const n = grants.filter((grant) => grant.email === email).length;
	return admin ? 'Every door' : n === 0 ? 'No door yet' : n === 1 ? '1 station' : `${n} stations`;
}

function List() {
	const [adding, add] = useState(false);
	const { value, error, again } = useFresh(async (signal) => {
		const all = await Promise.all(['accounts', 'grants'].map((one) => get('/admin/v1/' + one, { signal })));
		return Object.assign({}, ...all);
	});
	return html`<div class="top"><${Title}>People<//><button type="button" onClick=${() => add(true)}>Add a person</button></div>
		<${Problem} text=${error} again=${again} />
		${!value && !error && html`<p class="wait">Loading…</p>`}
		${value && html`<ul class="card list">
			${value.accounts.map((account) => html`<li key=${account.email}><a class="row" href=${'#/people/' + encodeURIComponent(account.email)}>
				<span class="name">${account.email}</span>
				<span class="facts">${account.email === session.account.email && html`<${Badge}>You<//>`} ${account.admin && html`<${Badge}>Administrator<//>`}
					<span class="soft">${doorsOf(account, value.grants)}</span></span>
			</a></li>`)}
		</ul>`}
		<div class="sections"><${Groups} /><${Tokens} /></div>
		${adding && html`<${AddPerson} close=${() => add(false)} added=${again} />`}`;
}

export default function People({ args }) {
	const [name] = args;
	if (!name) return html`<${List} />`;
	return name.includes('@') ? html`<${Person} email=${name} />` : html`<${Group} name=${name} />`;
}
