import { Empty, Title, html } from './ui.js';

export default function Gateway() {
	return html`<${Title}>Gateway<//>
		<${Empty} title="Not here yet" />`;
}
