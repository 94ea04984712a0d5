package consoletest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	consoletest.Close()
	gatewaytest.RemoveBinary()
	os.Exit(code)
}

func desktop() consoletest.Look { return consoletest.Look{Width: 1280, Height: 800} }

func phone() consoletest.Look { return consoletest.Look{Width: 360, Height: 740} }

// failures is a test that only notes its failures.
type failures struct {
	testing.TB
	all []string
}

func (f *failures) Error(args ...any) { f.all = append(f.all, fmt.Sprint(args...)) }

func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// The harness itself: it sees what a bad page does, and nothing wrong in a good one.
func TestTab_Check(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/good": `<main><h1>Good</h1><button>Press</button></main>`,
		"/bad": `<h1>Bad</h1><img src="http://127.0.0.1:2/x.png"><p style="margin: 0">text</p>
			<script src="/bad.js"></script>`,
		"/bad.js": `document.body.append('script'); console.error('misfortune'); setTimeout(() => { throw new Error('thrown'); document.title = 'done' });`,
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := ""
		if !strings.HasSuffix(r.URL.Path, ".js") {
			w.Header().Set("Content-Type", "text/html")
			head = `<!DOCTYPE html><html lang="en"><title>x</title><link rel="icon" href="data:,">`
		} else {
			w.Header().Set("Content-Type", "text/javascript")
		}
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src * data:")
		_, _ = w.Write([]byte(head + pages[r.URL.Path]))
	}))
	defer server.Close()

	noted := &failures{TB: t}
	tab := consoletest.NewTab(t, server.URL, phone())
	tab.T = noted
	tab.Open("/good")
	tab.Axe("good")
	tab.Check()
	if len(noted.all) > 0 {
		t.Errorf("a good page: %q", noted.all)
	}
	tab.Open("/bad")
	tab.AwaitText("script")
	tab.Eval("new Promise(r => setTimeout(r))", nil) // the exception comes before
	tab.Axe("bad")
	tab.Check()
	all := strings.Join(noted.all, "\n")
	for _, want := range []string{"a request to http://127.0.0.1:2/x.png", "misfortune", "an exception: Error: thrown", "content policy: style-src-attr", "image-alt"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not noticed in:\n%s", want, all)
		}
	}
}
