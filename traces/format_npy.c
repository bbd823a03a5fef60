/* NumPy .npy: versions 1-3; one dimension or (N,1); integers of any width and byte order, floats whose values are
 * integral. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "traces/format.h"

#define NPY_MAX_HEADER 65536u

static bool detect(const struct trace_peek *peek) { return peek->n >= 6 && memcmp(peek->bytes, "\x93NUMPY", 6) == 0; }

struct npy_type {
  char kind; /* i, u or f */
  unsigned size;
  bool big_endian;
};

/* The text after 'key': in the header, a Python dict literal. */
static const char *value_of(const char *header, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s'", key);
  const char *p = strstr(header, quoted);
  p = p ? strchr(p + strlen(quoted), ':') : NULL;
  return p ? p + 1 + strspn(p + 1, " ") : NULL;
}

static int parse_type(const char *path, const char *descr, struct npy_type *type, struct err *err) {
  if (!descr || *descr != '\'')
    return err_set(err,
                   "trace '%s': a structured NumPy array is not a list of lengths; save one field: "
                   "numpy.save('lengths.npy', a['length'])",
                   path);
  type->big_endian = descr[1] == '>';
  type->kind = descr[1] ? descr[2] : 0;
  type->size = type->kind ? (unsigned)strtoul(descr + 3, NULL, 10) : 0;
  if (type->kind == 'O')
    return err_set(err,
                   "trace '%s': a NumPy array of Python objects (pickled) is not read; save integers: "
                   "numpy.save('lengths.npy', numpy.array(lengths, dtype=numpy.int64))",
                   path);
  unsigned s = type->size;
  bool is_int = (type->kind == 'i' || type->kind == 'u') && (s == 1 || s == 2 || s == 4 || s == 8);
  bool is_float = type->kind == 'f' && (s == 2 || s == 4 || s == 8);
  if (!is_int && !is_float)
    return err_set(err,
                   "trace '%s': NumPy type '%s' is not read (integers, or float16/32/64); save "
                   "lengths.astype(numpy.int64)",
                   path, excerpt_make(descr + 1, strcspn(descr + 1, "'")).text);
  return 0;
}

static int parse_shape(const char *path, const char *shape, int64_t *n, struct err *err) {
  unsigned long long dim[3];
  int dims = 0;
  const char *p = shape && *shape == '(' ? shape + 1 : NULL;
  while (p && dims < 3) {
    char *end;
    p += strspn(p, " ");
    dim[dims] = strtoull(p, &end, 10);
    if (end == p || *p == '-')
      break;
    dims++;
    end += strspn(end, " L");
    p = *end == ',' ? end + 1 : NULL;
  }
  if (!(dims == 1 || (dims == 2 && dim[1] == 1)))
    return err_set(err, "trace '%s': the NumPy array must have shape (N,) or (N, 1); save lengths.reshape(-1)", path);
  if (dim[0] > TRACE_MAX_SAMPLES)
    return err_set(err, "trace '%s': more than %u samples", path, TRACE_MAX_SAMPLES);
  *n = (int64_t)dim[0];
  return 0;
}

static int truncated(const char *path, struct err *err) {
  return err_set(err, "trace '%s': truncated NumPy file: it ends inside its header", path);
}

static int read_header(struct trace_source *src, struct npy_type *type, int64_t *n, struct err *err) {
  char header[NPY_MAX_HEADER + 1];
  int64_t have = trace_source_peek(src, 12, err);
  if (have < 0)
    return -1;
  if (have < 12)
    return truncated(src->path, err);
  const unsigned char *p = (const unsigned char *)src->buf + src->pos;
  unsigned version = p[6];
  size_t start = version == 1 ? 10 : 12;
  size_t size = p[8] | (size_t)p[9] << 8 | (version == 1 ? 0 : (size_t)p[10] << 16 | (size_t)p[11] << 24);
  if (memcmp(p, "\x93NUMPY", 6) != 0)
    return err_set(err, "trace '%s': not a NumPy .npy file", src->path);
  if (version < 1 || version > 3)
    return err_set(err, "trace '%s': NumPy file version %u is not read (1 to 3 are)", src->path, version);
  if (size > NPY_MAX_HEADER)
    return err_set(err, "trace '%s': damaged NumPy file: a header of %zu bytes", src->path, size);
  have = trace_source_peek(src, start + size, err);
  if (have < 0)
    return -1;
  if ((size_t)have < start + size)
    return truncated(src->path, err);
  memcpy(header, src->buf + src->pos + start, size);
  header[size] = 0;
  src->pos += start + size;
  if (parse_type(src->path, value_of(header, "descr"), type, err))
    return -1;
  return parse_shape(src->path, value_of(header, "shape"), n, err);
}

static double half_value(uint64_t bits) {
  int exponent = (int)(bits >> 10 & 31);
  double mantissa = (double)(bits & 1023);
  double v = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
             : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                            : ldexp(mantissa, -24);
  return bits >> 15 ? -v : v;
}

static double float_value(const struct npy_type *type, uint64_t bits) {
  if (type->size == 2)
    return half_value(bits);
  if (type->size == 4) {
    float v;
    uint32_t low = (uint32_t)bits;
    memcpy(&v, &low, sizeof v);
    return v;
  }
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static int add_element(struct trace_sink *sink, int64_t at, const struct npy_type *type, const unsigned char *p,
                       struct err *err) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < type->size; i++)
    bits |= (uint64_t)p[type->big_endian ? type->size - 1 - i : i] << (8 * i);
  if (type->kind == 'f')
    return trace_sink_double(sink, at, "length", float_value(type, bits), err);
  if (type->kind == 'u')
    return trace_sink_int(sink, at, "length", bits > INT64_MAX ? INT64_MAX : (int64_t)bits, err);
  unsigned unused = 64 - 8 * type->size;
  return trace_sink_int(sink, at, "length", (int64_t)(bits << unused) >> unused, err);
}

static int read_npy(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                    struct err *err) {
  struct npy_type type;
  int64_t n, have;
  (void)options;
  sink->place = "element";
  if (read_header(src, &type, &n, err))
    return -1;
  for (int64_t i = 0; i < n; i++) {
    if (src->len - src->pos < type.size) {
      have = trace_source_peek(src, type.size, err);
      if (have < 0)
        return -1;
      if (have < (int64_t)type.size)
        return err_set(err, "trace '%s': truncated NumPy file: the header promises %lld elements, the file holds %lld",
                       src->path, (long long)n, (long long)i);
    }
    if (add_element(sink, i, &type, (const unsigned char *)src->buf + src->pos, err))
      return -1;
    src->pos += type.size;
  }
  have = trace_source_peek(src, 1, err);
  if (have > 0)
    return err_set(err, "trace '%s': damaged NumPy file: data after its %lld elements", src->path, (long long)n);
  return have < 0 ? -1 : 0;
}

static int write_npy(const struct trace *t, FILE *out, struct err *err) {
  char header[129] = "";
  (void)err;
  /* Magic, version and size take 10 bytes; padded so that data begin at byte 128. */
  int n =
      snprintf(header, sizeof header, "{'descr': '<i8', 'fortran_order': False, 'shape': (%lld,), }", (long long)t->n);
  memset(header + n, ' ', 118 - (size_t)n);
  header[117] = '\n';
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, out);
  fwrite(header, 1, 118, out);
  for (int64_t i = 0; i < t->n; i++) {
    unsigned char le[8] = {0};
    for (int b = 0; b < 4; b++)
      le[b] = (unsigned char)(t->samples[i].a >> (8 * b));
    fwrite(le, 1, sizeof le, out);
  }
  return 0;
}

const struct trace_format format_npy = {
    .name = "npy",
    .suffix = ".npy",
    .help = "NumPy .npy: shape (N,) or (N, 1), any integer type, floats if integral; not pickled objects",
    .detect = detect,
    .read = read_npy,
    .write = write_npy,
};
