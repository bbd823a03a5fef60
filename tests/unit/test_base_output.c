/* Result files are complete or absent, whatever goes wrong. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/output.h"

static char folder[64];

static void set_up(void) {
  strcpy(folder, "/tmp/dcpsim_output_XXXXXX");
  cr_assert(mkdtemp(folder));
}

static int files_in_folder(void) {
  int n = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *e; (e = readdir(dir));)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(dir);
  return n;
}

static void tear_down(void) {
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cr_assert_eq(system(command), 0);
}

static const char *in_folder(const char *name) {
  static char path[400];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void assert_content(const char *path, const char *expected) {
  char buf[100] = "";
  FILE *file = fopen(path, "r");
  cr_assert(file, "%s is missing", path);
  cr_assert(fgets(buf, sizeof buf, file));
  fclose(file);
  cr_assert_str_eq(buf, expected);
}

TestSuite(base_output, .init = set_up, .fini = tear_down);

Test(base_output, appears_whole_on_commit) {
  struct output out;
  struct err err = {0};
  const char *path = in_folder("a.csv");
  cr_assert_eq(output_open(&out, path, &err), 0, "%s", err.msg);
  fputs("new", out.file);
  fflush(out.file);
  cr_assert_neq(access(path, F_OK), 0, "nothing under the name before commit");
  cr_assert_eq(output_commit(&out, &err), 0, "%s", err.msg);
  assert_content(path, "new");
  cr_assert_eq(files_in_folder(), 1);
  output_discard(&out);
  cr_assert_eq(files_in_folder(), 1, "discard after commit is harmless");

  cr_assert_eq(chmod(path, 0640), 0);
  cr_assert_eq(output_open(&out, path, &err), 0);
  fputs("newer", out.file);
  fflush(out.file);
  assert_content(path, "new");
  output_discard(&out);
  assert_content(path, "new");
  cr_assert_eq(files_in_folder(), 1, "no temporary file stays");

  cr_assert_eq(output_open(&out, path, &err), 0);
  fputs("newest", out.file);
  cr_assert_eq(output_commit(&out, &err), 0);
  assert_content(path, "newest");
  struct stat st;
  cr_assert_eq(stat(path, &st), 0);
  cr_assert_eq(st.st_mode & 0777, 0640, "rights of the old file are kept");
  struct output zero = {0};
  output_discard(&zero);
}

Test(base_output, long_names_and_links) {
  struct output out;
  struct err err = {0};
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  cr_assert_eq(output_open(&out, in_folder(name), &err), 0, "%s", err.msg);
  fputs("x", out.file);
  cr_assert_eq(output_commit(&out, &err), 0, "%s", err.msg);
  char link[100];
  snprintf(link, sizeof link, "%s", in_folder("link"));
  cr_assert_eq(symlink(name, link), 0);
  cr_assert_eq(output_open(&out, link, &err), 0, "%s", err.msg);
  fputs("through", out.file);
  cr_assert_eq(output_commit(&out, &err), 0, "%s", err.msg);
  struct stat st;
  cr_assert_eq(lstat(link, &st), 0);
  cr_assert(S_ISLNK(st.st_mode), "the link stays a link");
  assert_content(in_folder(name), "through");
}

Test(base_output, refuses_what_cannot_be_written) {
  struct output out;
  struct err err = {0};
  char expected[200];
  cr_assert_eq(output_open(&out, folder, &err), -1);
  snprintf(expected, sizeof expected, "cannot write '%s': Is a directory", folder);
  cr_assert_str_eq(err.msg, expected);
  cr_assert_eq(output_open(&out, in_folder("none/a.csv"), &err), -1);
  snprintf(expected, sizeof expected, "cannot write '%s/none/a.csv': No such file or directory", folder);
  cr_assert_str_eq(err.msg, expected);
  cr_assert_eq(output_open(&out, "", &err), -1);
  cr_assert_str_eq(err.msg, "cannot write '': the file name is empty");
  cr_assert_eq(output_open(&out, "/proc/none", &err), -1);
  cr_assert(!out.file && !out.path && !out.temp_path);
  cr_assert_eq(files_in_folder(), 0);
}

Test(base_output, a_full_disk_is_one_clear_error) {
  struct output out;
  struct err err = {0};
  for (int many = 0; many < 2; many++) { /* fails in fflush, or long before */
    cr_assert_eq(output_open(&out, "/dev/full", &err), 0, "%s", err.msg);
    for (int i = 0; i < (many ? 100000 : 1); i++)
      fputs("text", out.file);
    err = (struct err){0};
    cr_assert_eq(output_commit(&out, &err), -1);
    cr_assert_str_eq(err.msg, "cannot write '/dev/full': No space left on device");
    cr_assert_eq(access("/dev/full", F_OK), 0);
  }
  cr_assert_eq(output_open(&out, "/dev/null", &err), 0);
  fputs("text", out.file);
  cr_assert_eq(output_commit(&out, &err), 0);
  struct stat st;
  cr_assert_eq(stat("/dev/null", &st), 0);
  cr_assert(S_ISCHR(st.st_mode), "/dev/null must stay a device");
}

Test(base_output, a_signal_removes_the_temporary_file) {
  pid_t child = fork();
  if (child == 0) {
    struct output out;
    signal(SIGTERM, SIG_DFL);
    output_remove_on_signal();
    if (output_open(&out, in_folder("a.csv"), NULL) != 0 || files_in_folder() != 1)
      _exit(1);
    raise(SIGTERM);
    _exit(2);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %d", status);
  cr_assert_eq(files_in_folder(), 0);
}
