// The page at /docs: the OpenAPI descriptions of the gateway, to be read by people. It
// draws what these files say, and knows nothing of the API itself.

import { h, render } from '../vendor/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';

const html = htm.bind(h);

const documents = {
	v1: '/v1/openapi.json',
	local: '/local/v1/openapi.json',
	admin: '/admin/v1/openapi.json',
};
const verbs = { get: 'ok', post: 'warn', put: 'warn', patch: 'warn', delete: 'bad' }; // and their badges
const depth = 4; // how far the fields of fields are shown

/** address reads the fragment: #local/watch is the operation watch of /local/v1. */
function address() {
	const [name, operation] = location.hash.slice(1).split('/');
	return { name: documents[name] ? name : 'v1', operation };
}

/** resolve follows a reference within the description; what stands beside it wins. */
function resolve(doc, value) {
	if (!value?.$ref) return value ?? {};
	const { $ref, ...beside } = value;
	const found = $ref.slice(2).split('/').reduce((part, name) => part[name], doc);
	return { ...resolve(doc, found), ...beside };
}

/** merged joins the parts of allOf. */
function merged(doc, schema) {
	const all = resolve(doc, schema);
	if (!all.allOf) return all;
	const parts = all.allOf.map((part) => merged(doc, part));
	return {
		...all, type: 'object',
		required: parts.flatMap((part) => part.required ?? []),
		properties: Object.assign({}, ...parts.map((part) => part.properties)),
	};
}

/** Text shows the paragraphs of a description, with `code` in it. */
function Text({ text }) {
	const inline = (part, i) => (i % 2 ? html`<code>${part}</code>` : part);
	return (text ?? '').split('\n\n').filter(Boolean).map((part) => html`<p>${part.split('`').map(inline)}</p>`);
}

/** kind names the type of a schema. */
function kind(doc, schema) {
	const type = [schema.type ?? (schema.oneOf ? 'one of' : 'any')].flat().join(' or ');
	if (!type.startsWith('array')) return type;
	return `${type} of ${kind(doc, merged(doc, schema.items))}`;
}

/** bounds words what a schema says of its values. */
function bounds(schema) {
	return [
		schema.enum && schema.enum.map((one) => JSON.stringify(one)).join(', '),
		schema.minimum !== undefined && `from ${schema.minimum}`,
		schema.maximum !== undefined && `up to ${schema.maximum}`,
		schema.minLength > 1 && `at least ${schema.minLength} characters`,
		schema.maxLength && `at most ${schema.maxLength} characters`,
		schema.format,
	].filter(Boolean).join(', ');
}

/** Fields shows the fields of a schema, and theirs. */
function Fields({ doc, schema, level = 0 }) {
	const all = merged(doc, schema);
	if (level > depth) return null;
	if (all.items) return html`<${Fields} doc=${doc} schema=${all.items} level=${level} />`;
	if (all.oneOf) {
		return html`<ul class="props">${all.oneOf.map((one) => html`<li>
			<strong>${one.$ref?.split('/').pop()}</strong> <${Fields} doc=${doc} schema=${one} level=${level + 1} />
		</li>`)}</ul>`;
	}
	if (!all.properties) return null;
	return html`<ul class="props">${Object.entries(all.properties).map(([name, property]) => {
		const field = merged(doc, property);
		return html`<li><${Field} doc=${doc} name=${name} schema=${field} optional=${!all.required?.includes(name)} />
			<${Fields} doc=${doc} schema=${field} level=${level + 1} /></li>`;
	})}</ul>`;
}

/** Field is the line of a field or a parameter. */
function Field({ doc, name, schema, optional, place, text }) {
	return html`<code><strong>${name}</strong></code>${' '}
		<small>${[kind(doc, schema), place && `in the ${place}`, optional && 'optional', bounds(schema)].filter(Boolean).join(', ')}</small>${' '}
		<${Text} text=${text ?? schema.description} />`;
}

/** Body shows the content of a request or an answer. */
function Body({ doc, content = {} }) {
	return Object.entries(content).map(([media, { schema, example, examples }]) => {
		const shown = example ?? Object.values(examples ?? {})[0]?.value;
		return html`<div>
			<p><small>${media}</small></p>
			<${Text} text=${resolve(doc, schema).description} />
			<${Fields} doc=${doc} schema=${schema} />
			${shown !== undefined && html`<pre tabindex="0" role="group" aria-label="Example"><code>${JSON.stringify(shown, null, 2)}</code></pre>`}
		</div>`;
	});
}

/** curl returns the request as a command. */
function curl(doc, path, verb, operation) {
	const open = operation.security?.length === 0;
	const example = operation.requestBody?.content?.['application/json']?.example;
	return [
		`curl -s${verb === 'get' ? '' : ' -X ' + verb.toUpperCase()} "$BASE${path}"`,
		!open && '-H "Authorization: Bearer $TOKEN"',
		example && `-H 'Content-Type: application/json' -d '${JSON.stringify(example)}'`,
	].filter(Boolean).join(' \\\n     ');
}

/** Operation shows one method of a path; its details are drawn when it is open. */
function Operation({ doc, name, path, verb, operation, parameters, wanted }) {
	const element = useRef(null);
	const [open, setOpen] = useState(wanted);
	useLayoutEffect(() => {
		if (!wanted) return;
		setOpen(true);
		element.current.scrollIntoView();
		element.current.querySelector('summary').focus({ preventScroll: true });
	}, [wanted]);
	return html`<details class="operation card" id=${operation.operationId} ref=${element} open=${open} onToggle=${(event) => setOpen(event.target.open)}>
		<summary><h3><span class=${'badge verb ' + verbs[verb]}>${verb.toUpperCase()}</span>
			<code class="path">${path}</code> <span class="about">${operation.summary}</span></h3></summary>
		${open && html`
			<${Text} text=${operation.description} />
			${operation.security?.length === 0 && html`<p><small>Open to everyone: it needs no token.</small></p>`}
			<pre tabindex="0" role="group" aria-label="As a command"><code>${curl(doc, path, verb, operation)}</code></pre>
			${parameters.length > 0 && html`<h4>Parameters</h4><ul class="props">${parameters.map((one) => html`<li>
				<${Field} doc=${doc} name=${one.name} schema=${merged(doc, one.schema)} optional=${!one.required} place=${one.in} text=${one.description} />
			</li>`)}</ul>`}
			${operation.requestBody && html`<h4>Body</h4><${Body} doc=${doc} content=${resolve(doc, operation.requestBody).content} />`}
			${Object.entries(operation.responses).map(([status, one]) => {
				const answer = resolve(doc, one);
				return html`<h4>${status === 'default' ? 'Other errors' : status} <small>${answer.description}</small></h4>
					${status < 300 && html`<${Body} doc=${doc} content=${answer.content} />`}`;
			})}
			<p><a href=${`#${name}/${operation.operationId}`}>Link to this</a></p>`}
	</details>`;
}

/** operations lists what a description has, of one tag, that a search finds. */
function operations(doc, tag, search) {
	const words = search.toLowerCase().split(/\s+/);
	return Object.entries(doc.paths).flatMap(([path, item]) => Object.keys(verbs).filter((verb) => item[verb]?.tags?.[0] === tag).map((verb) => ({
		path, verb, operation: item[verb],
		parameters: [...(item.parameters ?? []), ...(item[verb].parameters ?? [])].map((one) => resolve(doc, one)),
	}))).filter(({ path, verb, operation }) => {
		const text = `${verb} ${path} ${operation.summary} ${operation.description ?? ''}`.toLowerCase();
		return words.every((word) => text.includes(word));
	});
}

function Docs() {
	const [at, setAt] = useState(address);
	const [{ doc, error }, setLoaded] = useState({});
	const [search, setSearch] = useState('');
	useEffect(() => {
		const change = () => setAt(address());
		addEventListener('hashchange', change);
		return () => removeEventListener('hashchange', change);
	}, []);
	useEffect(() => {
		setLoaded({});
		let current = true;
		fetch(documents[at.name]).then((answer) => answer.json()).then(
			(loaded) => current && setLoaded({ doc: loaded }),
			() => current && setLoaded({ error: 'The gateway does not answer. Load this page again.' }),
		);
		return () => void (current = false);
	}, [at.name]);
	const tags = (doc?.tags ?? []).map((tag) => [tag, operations(doc, tag.name, search)]).filter(([, found]) => found.length);
	return html`<header>
			<a class="brand" href="/">Gatehouse</a>
			<nav aria-label="APIs">${Object.entries(documents).map(([name, path]) => html`<a href=${'#' + name} aria-current=${name === at.name ? 'page' : undefined}>${path.replace('/openapi.json', '')}</a>`)}</nav>
		</header>
		<main>
			<h1>${doc?.info.title ?? 'API'}</h1>
			${error && html`<p role="alert" class="problem">${error}</p>`}
			${doc && html`<p>${doc.info.summary} <a href=${documents[at.name]}>OpenAPI ${doc.openapi}</a></p>
				<${Text} text=${doc.info.description} />
				<div class="tools"><div class="field"><label for="search">Search</label>
					<input id="search" type="search" autocomplete="off" value=${search} onInput=${(event) => setSearch(event.target.value)} /></div></div>
				<p class="unseen" role="status">${search && `${tags.reduce((n, [, found]) => n + found.length, 0)} found`}</p>
				${search && !tags.length && html`<p class="empty">Nothing is called that.</p>`}
				${tags.map(([tag, found]) => html`<section key=${tag.name} aria-label=${tag.name}>
					<h2 class="tag">${tag.name[0].toUpperCase() + tag.name.slice(1)} <small>${tag.description}</small></h2>
					${found.map((one) => html`<${Operation} key=${one.operation.operationId} doc=${doc} name=${at.name} ...${one} wanted=${one.operation.operationId === at.operation} />`)}
				</section>`)}`}
		</main>`;
}

document.getElementById('app').replaceChildren();
render(h(Docs), document.getElementById('app'));
