package wallclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Clock is this process's wall clock.
type Clock struct {
	memory *os.File
	offset int64 // where the seconds are that are added
}

// code answers clock_gettime(clock in edi, result in rsi), followed by the seconds
// that it adds to clock 0, which is the wall clock.
var code = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne end
	0x48, 0x8b, 0x0d, 0x0e, 0, 0, 0, // mov rcx, [seconds]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,                                                       // end: ret
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, // up to 32
	0, 0, 0, 0, 0, 0, 0, 0, // seconds
}

const secondsAt = 32

// Take makes the wall clock one that can be set. It returns ErrUnsupported if the
// kernel's vDSO is not as expected. Call it once, early.
func Take() (*Clock, error) {
	v, err := find()
	if err != nil {
		return nil, err
	}
	if _, err := v.memory.WriteAt(code, v.start+v.free); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, errors.Join(err, v.memory.Close()))
	}
	// Eight bytes at once, so that a thread that gets there sees all or nothing of it.
	jump := bytes.Clone(v.image[v.function : v.function+8])
	jump[0] = 0xe9
	binary.LittleEndian.PutUint32(jump[1:], uint32(int32(v.free-(v.function+5))))
	if _, err := v.memory.WriteAt(jump, v.start+v.function); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, errors.Join(err, v.memory.Close()))
	}
	return &Clock{memory: v.memory, offset: v.start + v.free + secondsAt}, nil
}

// Supported reports whether Take can do it, which it must not have done in this process.
func Supported() bool {
	v, err := find()
	if err != nil {
		return false
	}
	_ = v.memory.Close() // nothing was written
	return true
}

// A vdso is this process's copy of the vDSO.
type vdso struct {
	memory   *os.File // of the process
	start    int64    // in memory
	image    []byte
	function int64 // where clock_gettime is in the image
	free     int64 // where there is room for code
}

func find() (*vdso, error) {
	start, end, err := findVDSO()
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	v := &vdso{memory: memory, start: start, image: make([]byte, end-start)}
	if err := v.look(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, errors.Join(err, memory.Close()))
	}
	return v, nil
}

func (v *vdso) look() error {
	if _, err := v.memory.ReadAt(v.image, v.start); err != nil {
		return err
	}
	function, err := findFunction(v.image)
	if err != nil {
		return err
	}
	v.function = int64(function)
	v.free = int64(len(v.image) - len(code) - 8)
	v.free -= v.free % 16
	if function%8 != 0 || len(bytes.Trim(v.image[v.free:], "\x00")) > 0 {
		return errors.New("the vDSO has no room")
	}
	return nil
}

// Shift sets the clock off by d, in whole seconds, from the machine's.
func (c *Clock) Shift(d time.Duration) {
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(d/time.Second))
	if _, err := c.memory.WriteAt(seconds, c.offset); err != nil {
		panic(err) // it could be written when the clock was taken
	}
}

func findVDSO() (start, end int64, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err == nil {
				return start, end, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("%w: there is no vDSO", ErrUnsupported)
}

// findFunction is where clock_gettime is in the image of the vDSO.
func findFunction(image []byte) (int, error) {
	file, err := elf.NewFile(io.NewSectionReader(bytes.NewReader(image), 0, int64(len(image))))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Value+8 <= uint64(len(image)) {
			return int(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO does not know the time")
}
