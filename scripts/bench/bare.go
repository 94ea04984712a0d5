package main

import (
	"net/http"
)

// runBare is the role of the bare handler: it sets the headers and writes the
// bytes of a station read, and does nothing else.
func runBare(b *boss) error {
	var job serverJob
	if err := b.receive(&job); err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		for name, values := range job.Headers {
			header[name] = values
		}
		_, _ = w.Write(job.Body)
	}
	return serveHTTP(b, http.HandlerFunc(answer), serverAddresses{})
}
