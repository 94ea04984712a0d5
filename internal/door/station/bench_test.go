package station_test

import (
	"testing"

	"gatehouse/internal/site"
)

func BenchmarkState(b *testing.B) {
	f := setup(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for id := site.StationID(1); pb.Next(); id = id%1000 + 1 {
			if _, ok := f.State(id); !ok {
				b.Error("no state")
			}
		}
	})
}

func BenchmarkByToken(b *testing.B) {
	f := setup(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := f.ByToken(token); !ok {
				b.Error("no station")
			}
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	f := setup(b, 1000)
	for name, id := range map[string]site.StationID{"known": 1, "unknown": 5000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, ok := f.Authenticate(id, secret); ok != (id == 1) {
						b.Error("wrong answer")
					}
				}
			})
		})
	}
}

func BenchmarkHeard(b *testing.B) {
	f := setup(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for id := site.StationID(1); pb.Next(); id = id%1000 + 1 {
			f.Heard(id)
		}
	})
}

func BenchmarkReport(b *testing.B) {
	f := setup(b, 1)
	payload := []byte(`{"batteryVoltage":3.71,"firmware":"1.4.2","locks":[{"lockId":"lock-1","status":"locked"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Report(1, payload); err != nil {
			b.Fatal(err)
		}
	}
}
