package kit

import "strings"

const (
	maxAgent   = 512 // bytes of a User-Agent header that are read
	maxProduct = 40  // bytes of the name of an unknown program
)

// word is a part of a User-Agent header, and the name of what has it.
type word struct{ part, name string }

// Client returns the name of the program that sent the request, such as "Firefox on Android"
// or "curl", from its User-Agent header; "" without one. The name is printable ASCII, of about
// 50 bytes at most.
func (r *Request) Client() string {
	agent := r.agent()
	name := product(agent)
	if strings.HasPrefix(agent, "Mozilla/") {
		name = named(agent, []word{ // in this order: each also names browsers below it
			{" Edg", "Edge"},
			{"OPR/", "Opera"},
			{"SamsungBrowser/", "Samsung Internet"},
			{"DuckDuckGo/", "DuckDuckGo"},
			{"FxiOS/", "Firefox"},
			{"Firefox/", "Firefox"},
			{"; wv)", "App"},
			{"CriOS/", "Chrome"},
			{"Chrome/", "Chrome"},
			{"Safari/", "Safari"},
			{"Mobile/", "App"},
			{"", "Browser"},
		})
	}
	if system := r.System(); system != "" && name != "" {
		name += " on " + system
	}
	return name
}

// System returns the operating system that the User-Agent header names; "" where it names
// none. An iPad calls itself a Mac.
func (r *Request) System() string {
	return named(r.agent(), []word{
		{"iPhone", "iPhone"},
		{"iPad", "iPad"},
		{"Android", "Android"},
		{"Windows", "Windows"},
		{"Mac OS X", "macOS"},
		{"CrOS", "ChromeOS"},
		{"Linux", "Linux"},
	})
}

func (r *Request) agent() string {
	agent := r.UserAgent()
	return agent[:min(len(agent), maxAgent)]
}

// named returns the name of the first word that agent has.
func named(agent string, words []word) string {
	for _, w := range words {
		if strings.Contains(agent, w.part) {
			return w.name
		}
	}
	return ""
}

// product returns the name of the first product that agent names (RFC 9110, 10.1.5).
func product(agent string) string {
	name, _, _ := strings.Cut(agent, "/")
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, name)
	return strings.TrimSpace(name[:min(len(name), maxProduct)])
}
