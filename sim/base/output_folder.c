#include "sim/base/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/units.h"

/* Folders that exist now, for the signal handler: it may call nothing that allocates, so names are kept ready. */
#define MAX_FOLDERS 64
static _Atomic(struct output_folder *) folders[MAX_FOLDERS];

static void replace(struct output_folder *from, struct output_folder *to) {
  for (int i = 0; i < MAX_FOLDERS; i++) {
    struct output_folder *expected = from;
    if (atomic_compare_exchange_strong(&folders[i], &expected, to))
      return;
  }
}

/* Again where another thread made a file meanwhile: once the folder is gone it can make no more. */
static void remove_contents(struct output_folder *f) {
  for (int again = 0; again < 1000; again++) {
    int n = atomic_load(&f->n_files);
    for (int i = 0; i < n; i++)
      unlink(f->files[i]);
    if (rmdir(f->temp_path) == 0 || errno != ENOTEMPTY)
      return;
  }
}

void output_folder_remove_all(void) {
  for (int i = 0; i < MAX_FOLDERS; i++) {
    struct output_folder *f = atomic_load(&folders[i]);
    if (f)
      remove_contents(f);
  }
}

/* 1: free or an empty folder; 0: there is something; -1: cannot be told, errno set. */
static int is_free(const char *path) {
  DIR *dir = opendir(path);
  if (!dir)
    return errno == ENOENT ? 1 : errno == ENOTDIR ? 0 : -1;
  int entries = 0;
  while (readdir(dir))
    entries++;
  closedir(dir);
  return entries <= 2; /* . and .. */
}

/* "<folder of path>/.dcpsim-<pid>-<n>.tmp" */
static int make_temporary(struct output_folder *f) {
  const char *slash = strrchr(f->path, '/');
  int parent = slash ? (int)(slash - f->path) + 1 : 0;
  size_t size = (size_t)parent + 64;
  f->temp_path = xmalloc(size);
  for (int n = 0; n < 10000; n++) {
    snprintf(f->temp_path, size, "%.*s.dcpsim-%ld-%d.tmp", parent, f->path, (long)getpid(), n);
    if (mkdir(f->temp_path, 0777) == 0)
      return 0;
    if (errno != EEXIST)
      break;
  }
  return -1;
}

int output_folder_open(struct output_folder *f, const char *path, int max_files, struct err *err) {
  *f = (struct output_folder){.max_files = max_files};
  int free_name = *path ? is_free(path) : 0;
  if (free_name < 0)
    return err_set(err, "cannot write folder '%s': %s", path, strerror(errno));
  if (free_name == 0)
    return err_set(err, "cannot write folder '%s': %s", path,
                   *path ? "it exists and is not an empty folder" : "the name is empty");
  char *target = realpath(path, NULL); /* of an empty folder */
  f->path = target ? target : xstrdup(path);
  for (size_t n = strlen(f->path); n > 1 && f->path[n - 1] == '/'; n--)
    f->path[n - 1] = '\0';
  if (make_temporary(f) < 0) {
    err_set(err, "cannot write folder '%s': %s", path, strerror(errno));
    free(f->path);
    free(f->temp_path);
    *f = (struct output_folder){0};
    return -1;
  }
  f->files = xcalloc((size_t)max_files, sizeof *f->files);
  replace(NULL, f);
  return 0;
}

FILE *output_folder_begin_file(struct output_folder *f, const char *name, struct err *err) {
  ASSERT(f->temp_path && f->n_files < f->max_files);
  size_t size = strlen(f->temp_path) + strlen(name) + 2;
  char *path = xmalloc(size);
  snprintf(path, size, "%s/%s", f->temp_path, name);
  f->files[f->n_files] = path;
  atomic_fetch_add(&f->n_files, 1);
  FILE *file = fopen(path, "wxe");
  if (!file)
    err_set(err, "cannot write '%s/%s': %s", f->path, name, strerror(errno));
  return file;
}

int output_folder_end_file(struct output_folder *f, FILE *file, struct err *err) {
  errno = 0;
  int failed = fflush(file) != 0 || ferror(file) || fsync(fileno(file)) != 0;
  int e = failed ? (errno ? errno : EIO) : 0;
  if (fclose(file) != 0 && !e)
    e = errno;
  return e ? err_set(err, "cannot write folder '%s': %s", f->path, strerror(e)) : 0;
}

static void release(struct output_folder *f) {
  replace(f, NULL);
  for (int i = 0; i < f->n_files; i++)
    free(f->files[i]);
  free(f->files);
  free(f->temp_path);
  free(f->path);
  *f = (struct output_folder){0};
}

int output_folder_commit(struct output_folder *f, struct err *err) {
  if (rename(f->temp_path, f->path) != 0) { /* takes the place of an empty folder, too */
    err_set(err, "cannot write folder '%s': %s", f->path, strerror(errno));
    output_folder_discard(f);
    return -1;
  }
  release(f);
  return 0;
}

void output_folder_discard(struct output_folder *f) {
  if (!f->temp_path)
    return;
  remove_contents(f);
  release(f);
}
