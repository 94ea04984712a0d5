// Pressing what opens a door. A finger aims at what it saw: a press counts only on a button
// that stood at that place, enabled and for the same lock, for half a second before.
// A key or a screen reader aims at a lock and at no place: it is enough that the button was
// enabled for that lock as long.

const rest = 500; // milliseconds
// The clock of events is off in browsers whose time was set; a page is never behind by more.
const mostBehind = 1_000;

const seen = new WeakMap(); // by button: its state and its place, and since when it has them
let press = null; // the last one that began: on which button, for which lock, and whether it counts

const now = () => performance.now();

// placeOf returns where a button is on the screen, whatever zooms or covers the page.
function placeOf(button) {
	const { x, y, width, height } = button.getBoundingClientRect();
	const view = visualViewport;
	const corners = [x - view.offsetLeft, y - view.offsetTop, width, height].map((length) => Math.round(length * view.scale));
	return [...corners, Math.round(view.height * view.scale)].join();
}

function look() {
	const covered = document.querySelector('dialog[open]');
	for (const button of document.querySelectorAll('.unlock')) {
		const before = seen.get(button);
		const state = covered || button.getAttribute('aria-disabled') === 'true' ? '' : button.dataset.lock; // "" cannot be opened
		const place = placeOf(button);
		const enabled = before?.state === state ? before.enabled : now();
		const still = before?.place === place ? before.still : now();
		seen.set(button, { state, place, enabled, still });
	}
}

// rested reports whether a button was ready for half a second when an event happened.
function rested(button, event, aimed) {
	look();
	const { state, enabled, still } = seen.get(button);
	const behind = Math.min(Math.max(new Event('').timeStamp - event.timeStamp, 0), mostBehind);
	return state !== '' && now() - behind - Math.max(enabled, aimed ? still : 0) >= rest;
}

// begin notes a press. Of a key that is held only the first counts.
function begin(event) {
	const button = event.target.closest?.('.unlock');
	const { type, key, repeat } = event;
	if (repeat && key === ' ') return; // it clicks once, when it is released
	if (repeat && button) event.preventDefault();
	const presses = type === 'pointerdown' || key === 'Enter' || key === ' ';
	press = button && presses && { button, lock: button.dataset.lock, good: !repeat && rested(button, event, type === 'pointerdown') };
}

// counts reports whether a click on a button opens its door.
export function counts(event) {
	const button = event.currentTarget;
	const began = press?.button === button && press;
	press = null;
	if (!began) return event.detail === 0 && rested(button, event, false); // a screen reader clicks without a key
	return began.good && began.lock === button.dataset.lock;
}

for (const type of ['pointerdown', 'keydown']) addEventListener(type, begin, true);
for (const type of ['pointercancel', 'click']) addEventListener(type, () => (press = null));

let due = 0; // the frame in which to look
function lookSoon() {
	due ||= requestAnimationFrame(() => {
		due = 0;
		look();
	});
}

new MutationObserver(lookSoon).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
new ResizeObserver(lookSoon).observe(document.body);
for (const type of ['scroll', 'resize']) {
	addEventListener(type, lookSoon, { capture: true, passive: true });
	visualViewport.addEventListener(type, lookSoon);
}
