#include "traces/foreign.h"

#include <string.h>

#define TABLE_ADVICE(call)                                                                                             \
  "convert it once: python3 -c \"import pandas as p; p." call                                                          \
  ".to_csv('lengths.csv', index=False)\", then name the column with --column"

struct foreign {
  const char *magic;
  size_t n;
  const char *what, *advice;
};

static const struct foreign kinds[] = {
    {"PAR1", 4, "a Parquet file", TABLE_ADVICE("read_parquet('IN')[['length']]")},
    {"ARROW1", 6, "an Arrow (Feather v2) file", TABLE_ADVICE("read_feather('IN')[['length']]")},
    {"FEA1", 4, "a Feather v1 file", TABLE_ADVICE("read_feather('IN')[['length']]")},
    {"\xff\xff\xff\xff", 4, "an Arrow stream",
     "convert it once: python3 -c \"import pyarrow as a; "
     "a.ipc.open_stream('IN').read_pandas()[['length']].to_csv('lengths.csv', index=False)\""},
    {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file",
     "convert it once: python3 -c \"import h5py, numpy; numpy.save('lengths.npy', h5py.File('IN')['length'][:])\""},
    {"PK\x03\x04", 4, "a zip archive (.npz, .pt, .xlsx)", "save the lengths alone: numpy.save('lengths.npy', lengths)"},
    {"\x80\x02", 2, "a Python pickle", "save the lengths instead: numpy.save('lengths.npy', lengths)"},
    {"\x80\x03", 2, "a Python pickle", "save the lengths instead: numpy.save('lengths.npy', lengths)"},
    {"\x80\x04", 2, "a Python pickle", "save the lengths instead: numpy.save('lengths.npy', lengths)"},
    {"\x80\x05", 2, "a Python pickle", "save the lengths instead: numpy.save('lengths.npy', lengths)"},
    {"BZh", 3, "compressed with bzip2", "decompress it first: bunzip2 FILE (gzip and zstd are read directly)"},
    {"\xfd"
     "7zXZ",
     5, "compressed with xz", "decompress it first: unxz FILE (gzip and zstd are read directly)"},
    {"\xff\xfe", 2, "UTF-16 text", "convert it once: iconv -f UTF-16 -t UTF-8 IN > OUT"},
    {"\xfe\xff", 2, "UTF-16 text", "convert it once: iconv -f UTF-16 -t UTF-8 IN > OUT"},
};

int foreign_refuse(const char *path, const char *bytes, size_t n, struct err *err) {
  static const char npy_magic[] = "\x93NUMPY", megatron_magic[] = "MMIDIDX";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (n >= kinds[i].n && memcmp(bytes, kinds[i].magic, kinds[i].n) == 0)
      return err_set(err, "trace '%s': this is %s, which is not read; %s", path, kinds[i].what, kinds[i].advice);
  if ((n >= 6 && memcmp(bytes, npy_magic, 6) == 0) || (n >= 7 && memcmp(bytes, megatron_magic, 7) == 0))
    return 0;
  if (memchr(bytes, 0, n))
    return err_set(err, "trace '%s': a binary file of no known kind (formats: dcpsim list formats)", path);
  return 0;
}
