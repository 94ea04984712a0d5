package kit_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse/internal/web/kit"
)

func TestRequest_Client(t *testing.T) {
	const like = "(KHTML, like Gecko)"
	for agent, want := range map[string]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 " + like + " Chrome/131.0.0.0 Safari/537.36":                                                   "Chrome on Windows",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 " + like + " Chrome/131.0.0.0 Mobile Safari/537.36":                                                   "Chrome on Android",
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 " + like + " Chrome/131.0.0.0 Safari/537.36":                                                    "Chrome on ChromeOS",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 " + like + " HeadlessChrome/131.0.0.0 Safari/537.36":                                                     "Chrome on Linux",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 " + like + " CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1":                    "Chrome on iPhone",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 " + like + " Chrome/131.0.0.0 Safari/537.36 Edg/131.0.2903.51":                                 "Edge on Windows",
		"Mozilla/5.0 (Linux; Android 10; HD1913) AppleWebKit/537.36 " + like + " Chrome/131.0.6778.81 Mobile Safari/537.36 EdgA/131.0.2903.48":                       "Edge on Android",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_7_2 like Mac OS X) AppleWebKit/605.1.15 " + like + " Version/17.0 EdgiOS/131.0.2903.68 Mobile/15E148 Safari/605.1.15": "Edge on iPhone",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0":                                                                           "Firefox on Windows",
		"Mozilla/5.0 (Android 15; Mobile; rv:133.0) Gecko/133.0 Firefox/133.0":                                                                                       "Firefox on Android",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 14.7; rv:133.0) Gecko/20100101 Firefox/133.0":                                                                        "Firefox on macOS",
		"Mozilla/5.0 (iPad; CPU OS 14_7_1 like Mac OS X) AppleWebKit/605.1.15 " + like + " FxiOS/133.0 Mobile/15E148 Safari/605.1.15":                                "Firefox on iPad",
		"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0":                                                                             "Firefox on Linux",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 " + like + " Version/18.1 Safari/605.1.15":                                             "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1_1 like Mac OS X) AppleWebKit/605.1.15 " + like + " Version/18.1.1 Mobile/15E148 Safari/604.1":                       "Safari on iPhone",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 " + like + " SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36":                               "Samsung Internet on Android",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 " + like + " Chrome/130.0.0.0 Safari/537.36 OPR/115.0.0.0":                                     "Opera on Windows",
		"Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A; wv) AppleWebKit/537.36 " + like + " Version/4.0 Chrome/131.0.6778.81 Mobile Safari/537.36":              "App on Android",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 " + like + " Mobile/15E148":                                                     "App on iPhone",
		"Mozilla/5.0 (compatible; Konqueror/4.5; FreeBSD) KHTML/4.5.4 " + like:                                                                                       "Browser",
		"Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/AP2A.240805.005)":                                                                                         "Dalvik on Android",
		"okhttp/4.12.0":          "okhttp",
		"curl/8.10.1":            "curl",
		"python-requests/2.32.3": "python-requests",
		"HomeAssistant/2024.11.3 aiohttp/3.11.7 Python/3.12":                             "HomeAssistant",
		"Home Assistant/2024.11.1 (io.robbie.HomeAssistant; build:2024.972; iOS 18.1.0)": "Home Assistant",
		"Gatehouse/12 CFNetwork/1568.200.51 Darwin/24.1.0":                               "Gatehouse",
		"Edgerouter":                             "Edgerouter",
		"":                                       "",
		"/":                                      "",
		" \x80ev\x1b[2J\u202eil\u00e9\x00\xff/1": "ev[2Jil",
		strings.Repeat("x", 100):                 strings.Repeat("x", 40),
		strings.Repeat("\u00e9", 300) + "x/1":    "",
		"<script>alert(1)</script>":              "<script>alert(1)<",
		"Mozilla/5.0 " + strings.Repeat("x", 500) + " Firefox/1 Android": "Browser",
	} {
		r := kit.Request{Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)}
		r.Header.Set("User-Agent", agent)
		if got := r.Client(); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}
