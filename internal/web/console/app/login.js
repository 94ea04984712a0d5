// What a station logs in with: shown once, to be copied or scanned.

import { post } from './api.js';
import { Load, Secrets } from './parts.js';
import { Problem, html, useLoad } from './ui.js';

/** broker returns where stations connect: the listener with TLS, by the host that reached this page. */
function broker({ listeners, addresses }) {
	const found = ['mqtts', 'mqtt'].map((name) => listeners.find((one) => one.name === name)).find(Boolean);
	if (!found) return null;
	const [, host, port] = found.address.match(/^(.*):(\d+)$/);
	if (host !== '[::]' && host !== '0.0.0.0') return { host, port, tls: found.tls };
	const here = location.hostname;
	const [outside] = /^(localhost|127\.|\[::1)/.test(here) ? addresses : [];
	return { host: outside?.includes(':') ? `[${outside}]` : (outside ?? here), port, tls: found.tls };
}

/** outline returns the dark modules of a QR code as the path of an SVG. */
function outline(rows) {
	return rows.flatMap((row, y) => Array.from(row.matchAll(/1+/g), ({ 0: { length }, index }) => `M${index} ${y}h${length}v1h-${length}z`)).join('');
}

function QR({ text }) {
	const { value, error, again } = useLoad(() => post('/admin/v1/qr', { text }), [text]);
	if (!value) return html`<${Problem} text=${error} again=${again} />`;
	const size = value.size + 8; // the quiet zone
	return html`<svg class="qr" role="img" aria-label="QR code of the login" viewBox=${`-4 -4 ${size} ${size}`} shape-rendering="crispEdges">
		<path fill="#fff" d=${`M-4-4h${size}v${size}h-${size}z`} /><path fill="#000" d=${outline(value.rows)} />
	</svg>`;
}

function Server({ server: { host, port, tls }, username, password }) {
	const scheme = tls ? 'mqtts' : 'mqtt';
	return html`<p>Server: <code>${host}:${port}</code>, MQTT ${tls ? 'with' : 'without'} TLS</p>
		<${QR} text=${`${scheme}://${username}:${encodeURIComponent(password)}@${host}:${port}`} />
		${tls && html`<p><small>The station has to trust <a href="/ca.crt" download>this gateway’s certificate</a>.</small></p>`}`;
}

/** Login shows what was issued for a station (an IssuedStation of the API). */
export function Login({ issued: { mqtt, stationToken } }) {
	return html`<${Secrets} of=${{ 'User name and client id': mqtt.username, Password: mqtt.password, 'Station token, for apps': stationToken }} />
		<${Load} paths=${['status']}>${(status) => {
			const server = broker(status);
			return server && html`<${Server} server=${server} ...${mqtt} />`;
		}}<//>`;
}
