package access_test

import (
	"fmt"
	"testing"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

func BenchmarkAuthenticate(b *testing.B) {
	h := open(b)
	h.fakeHashing()
	var tokens access.Tokens
	for i := range 100 {
		email := fmt.Sprintf("u%d@example.test", i)
		h.add(email)
		for range 10 {
			tokens = h.login(email)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := h.Authenticate(tokens.Access); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPermits(b *testing.B) {
	h := open(b)
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !h.Permits(account.ID, 7) {
				b.Fatal("not permitted")
			}
		}
	})
}

func BenchmarkRefresh(b *testing.B) {
	h := open(b)
	h.add(porter)
	tokens := h.login(porter)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Refresh(b.Context(), tokens.Refresh); err != nil {
			b.Fatal(err)
		}
	}
}
