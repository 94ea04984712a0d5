// Tests again and again whether this device trusts the gateway: only then does the image load over HTTPS.
const image = document.getElementById("image");
const state = document.getElementById("state");
const test = document.getElementById("test");
const address = image.src;
const attempts = 200; // one every 3 s, for 10 minutes; coming back to the page begins again
let attempt = 0;
let waiting = 0;

function load() {
  clearTimeout(waiting);
  attempt += 1;
  image.src = address + "?" + attempt;
}

image.addEventListener("load", () => {
  clearTimeout(waiting);
  attempt = attempts;
  image.hidden = false;
  image.alt = "";
  test.className = "trusted";
  state.textContent = "Yes: this device trusts the gateway.";
});

image.addEventListener("error", () => {
  image.hidden = true;
  test.className = "";
  state.textContent = "Not yet. This page tests again every few seconds.";
  if (attempt < attempts && !document.hidden) {
    waiting = setTimeout(load, 3000);
  }
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && test.className !== "trusted") {
    attempt = 0;
    load();
  }
});

// An iPad calls itself a Mac.
if (navigator.maxTouchPoints > 1 && /Macintosh/.test(navigator.userAgent)) {
  document.getElementById("macos")?.removeAttribute("open");
  document.getElementById("ios")?.setAttribute("open", "");
}

load();
