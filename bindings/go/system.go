package prefix

import "prefix.io/prefix/internal/swig"

// Version is "major.minor.patch" of the loaded library.
func Version() string { return swig.Prefix_version_string() }

// TextVersion is that of libprefix_text.
func TextVersion() string { return swig.Prefix_text_version_string() }

// ABIVersion is the version of the C interface that the loaded library has.
func ABIVersion() int { return int(swig.Prefix_abi_version()) }

// BuildInfo is one line for bug reports.
func BuildInfo() string { return swig.Prefix_build_info() }

// Features are what the library was built with and this machine can run.
func Features() []string {
	names := make([]string, swig.Prefix_feature_count())
	for i := range names {
		names[i] = swig.Prefix_feature_name(uintptr(i))
	}
	return names
}

// HasFeature says whether name is among [Features].
func HasFeature(name string) bool { return swig.Prefix_has_feature(name) != 0 }

// Device is what an engine could run on.
type Device struct {
	Kind       string // "cpu" or "cuda"
	Name       string // as its maker calls it; empty when that is not known
	Level      string // instruction-set level that option isa = auto takes, "amx"; "sm_90"
	Available  bool   // engines can run on it
	Chosen     bool   // they do unless option device names another
	Reason     string // why not available
	Threads    int    // cores this process may use; multiprocessors of a GPU
	TotalBytes int64  // memory of the device
	FreeBytes  int64  // not known of a GPU
}

// Devices lists the processor, then the GPUs in the order of option device = cuda:0, cuda:1, ...
func Devices() ([]Device, error) {
	devices := make([]Device, swig.Prefix_device_count())
	for i := range devices {
		raw := swig.DeviceDetails{StructSize: swig.SizeofDeviceDetails}
		if err := call(func(f *swig.Error) int32 { return swig.Prefix_device_info(uintptr(i), &raw, f) }); err != nil {
			return nil, err
		}
		devices[i] = Device{
			Kind: swig.Text(raw.Kind), Name: swig.Text(raw.Name), Level: swig.Text(raw.Level), Available: raw.Available != 0, Chosen: raw.Chosen != 0,
			Reason: swig.Text(raw.Reason), Threads: int(raw.Threads), TotalBytes: raw.TotalBytes, FreeBytes: raw.FreeBytes,
		}
	}
	return devices, nil
}
