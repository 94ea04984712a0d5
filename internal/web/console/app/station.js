import { Empty, Title, html } from './ui.js';

export default function Station() {
	return html`<${Title}>Station<//>
		<${Empty} title="Not here yet" />`;
}
