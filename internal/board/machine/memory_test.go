package machine_test

import (
	"testing"
	"testing/fstest"

	"gatehouse/internal/board/machine"
)

func TestTotalMemory(t *testing.T) {
	const whole = 512000 * 1024
	for _, test := range []struct {
		name    string
		machine uint64
		files   map[string]string
		want    uint64
	}{
		{"no limit", whole, nil, whole},
		{"nothing", 0, nil, 0},
		{"v2", whole, map[string]string{
			"proc/self/cgroup": "0::/system.slice/gatehouse.service\n",
			"sys/fs/cgroup/system.slice/gatehouse.service/memory.max": "67108864\n",
		}, 64 << 20},
		{"v2 of the parent", whole, map[string]string{
			"proc/self/cgroup": "0::/system.slice/gatehouse.service\n",
			"sys/fs/cgroup/system.slice/gatehouse.service/memory.max": "max\n",
			"sys/fs/cgroup/system.slice/memory.max":                   "134217728\n",
		}, 128 << 20},
		{"v2 at the root of a container", whole, map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "67108864\n",
		}, 64 << 20},
		{"limit alone", 0, map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "67108864\n",
		}, 64 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := machine.MemoryOf(root, test.machine); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}

func TestTotalMemory_here(t *testing.T) {
	if got := machine.TotalMemory(); got < 16<<20 {
		t.Errorf("this machine has %d bytes", got)
	}
}
