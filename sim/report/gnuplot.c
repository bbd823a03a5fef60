#include "sim/report/gnuplot.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/text_stream.h"

extern char **environ;

/* ---- The script ---------------------------------------------------------------------------------------------------
 */

/* Fonts by their generic name: fontconfig and browsers each have one. 900 x 500 in all three. */
static const struct {
  const char *name, *command;
  int title_points;
} terminals[] = {
    {"svg", "set terminal svg size 900,500 noenhanced font 'sans-serif,13' background rgb '#ffffff'", 17},
    {"png", "set terminal pngcairo size 900,500 noenhanced font 'sans-serif,10' background rgb '#ffffff'", 13},
    {"pdf", "set terminal pdfcairo size 9in,5in noenhanced font 'sans-serif,15' background rgb '#ffffff'", 20},
};

void gnuplot_begin(struct gnuplot *g, const char *terminal) {
  *g = (struct gnuplot){0};
  g->script = text_stream_begin(&g->text, &g->size);
  for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++) {
    if (strcmp(terminals[i].name, terminal) != 0)
      continue;
    fprintf(g->script, "%s\n", terminals[i].command);
    g->title_points = terminals[i].title_points;
  }
  fputs("set encoding utf8\n"
        "set border 3 lc rgb '#666666' lw 1\n"
        "set tics nomirror out scale 0.5 textcolor rgb '#222222'\n"
        "set grid lc rgb '#E4E4E4' lt 1 lw 1\n"
        "set style fill solid 1.0 noborder\n"
        "unset key\n",
        g->script);
}

void gnuplot_release(struct gnuplot *g) {
  if (g->script)
    text_stream_end(g->script);
  free(g->text);
  *g = (struct gnuplot){0};
}

/* Bytes of the UTF-8 character at s, 0 when there is none that gnuplot and XML accept. */
static int character_size(const unsigned char *s) {
  if (s[0] < 0x20 || s[0] == 0x7f)
    return 0;
  if (s[0] < 0x80)
    return 1;
  int n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) /* a C1 control */
    return 0;
  if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xef && s[1] == 0xbf)))
    return 0; /* overlong, a surrogate, or not a character */
  if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)))
    return 0;
  return n;
}

static int count_characters(const unsigned char *s) {
  int count = 0;
  for (; *s; count++) {
    int n = character_size(s);
    s += n ? n : 1;
  }
  return count;
}

/* In single quotes gnuplot knows one escape, '' for a quote, and that one fails where the text begins with it: quotes
 * become typographic ones, so nothing is left to escape. Enhanced text is off in every terminal. Never use the text as
 * the label of a tic: those are printf formats. */
void gnuplot_text(FILE *out, const char *text, int max_chars) {
  const unsigned char *s = (const unsigned char *)text;
  bool cut = max_chars > 0 && count_characters(s) > max_chars;
  fputc('\'', out);
  for (int count = 0; *s && !(cut && count == max_chars - 1); count++) {
    int n = character_size(s);
    if (n == 0)
      fputc('?', out);
    else if (*s == '\'')
      fputs("\xe2\x80\x99", out);
    else
      fwrite(s, 1, (size_t)n, out);
    s += n ? n : 1;
  }
  fputs(cut ? "\xe2\x80\xa6'" : "'", out);
}

void gnuplot_title(struct gnuplot *g, const char *title, const char *subtitle) {
  fputs("set label ", g->script);
  gnuplot_text(g->script, title, 70);
  fprintf(g->script, " at screen 0.025,0.945 left textcolor rgb '#%06X' font ',%d'\n", COLOUR_TEXT, g->title_points);
  fputs("set label ", g->script);
  gnuplot_text(g->script, subtitle, 110);
  fprintf(g->script, " at screen 0.025,0.885 left textcolor rgb '#%06X'\n", COLOUR_FAINT);
}

void gnuplot_label(struct gnuplot *g, double x, double y, const char *align, unsigned colour, const char *text) {
  fputs("set label ", g->script);
  gnuplot_text(g->script, text, 40);
  fprintf(g->script, " at %.9g,%.9g %s front textcolor rgb '#%06X'\n", x, y, align, colour);
}

/* About the width of a text, for laying out a row: exact widths are known to gnuplot only. */
static double text_width(const char *text) { return 0.0079 * count_characters((const unsigned char *)text); }

void gnuplot_legend(struct gnuplot *g, const struct legend_entry *entries, int n, double x, double y, bool centred) {
  const double side = 0.0125, gap = 0.008, between = 0.022; /* of the width; a picture is 900 x 500 */
  double width = -between;
  for (int i = 0; i < n; i++)
    width += side + gap + text_width(entries[i].text) + between;
  if (centred)
    x -= width / 2;
  for (int i = 0; i < n; i++) {
    fprintf(g->script,
            "set object rectangle from screen %.4f,%.4f to screen %.4f,%.4f fs solid 1.0 noborder fc rgb '#%06X'\n", x,
            y - side * 0.9, x + side, y + side * 0.9, entries[i].colour);
    fputs("set label ", g->script);
    gnuplot_text(g->script, entries[i].text, 40);
    fprintf(g->script, " at screen %.4f,%.4f left textcolor rgb '#%06X'\n", x + side + gap, y, COLOUR_TEXT);
    x += side + gap + text_width(entries[i].text) + between;
  }
}

bool colour_is_light(unsigned colour) {
  unsigned r = colour >> 16, g = colour >> 8 & 255, b = colour & 255;
  return 299 * r + 587 * g + 114 * b > 140000; /* perceived brightness, of 255000 */
}

/* ---- Running ------------------------------------------------------------------------------------------------------
 */

static int start(pid_t *pid, FILE *script, FILE *picture, FILE *messages) {
  static char *const argv[] = {"gnuplot", "-d", "-", NULL}; /* -d: no start-up files of the user's */
  posix_spawn_file_actions_t actions;
  int e = posix_spawn_file_actions_init(&actions);
  if (e)
    return e;
  posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(picture), 1);
  posix_spawn_file_actions_adddup2(&actions, fileno(messages), 2);
  e = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return e;
}

/* What gnuplot complained about, on one line: its last line that says something. */
static void read_complaint(FILE *messages, char *buf, size_t size) {
  char line[256];
  snprintf(buf, size, "it gave no reason");
  rewind(messages);
  while (fgets(line, sizeof line, messages)) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[strspn(line, " \t^")])
      snprintf(buf, size, "%s", line);
  }
}

static int wait_for(pid_t pid, FILE *messages, struct err *err) {
  int status;
  char complaint[256];
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return err_set(err, "cannot wait for gnuplot: %s", strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return 0;
  read_complaint(messages, complaint, sizeof complaint);
  return err_set(err, "gnuplot failed: %s", complaint);
}

static int run(const struct gnuplot *g, FILE *script, FILE *picture, FILE *messages, struct err *err) {
  if (fwrite(g->text, 1, g->size, script) != g->size || fflush(script) != 0 || fflush(picture) != 0)
    return err_set(err, "cannot write the gnuplot script: %s", strerror(errno));
  rewind(script);
  pid_t pid;
  int e = start(&pid, script, picture, messages);
  if (e == ENOENT)
    return err_set(err, "gnuplot is not installed, and plots need it (Debian, Ubuntu: apt install gnuplot-nox)");
  if (e)
    return err_set(err, "cannot start gnuplot: %s", strerror(e));
  return wait_for(pid, messages, err);
}

static void close_if(FILE *f) {
  if (f)
    fclose(f);
}

/* gnuplot does not notice a full disk. What SVG, PNG and PDF end in. */
static bool is_whole(FILE *picture) {
  static const char *const ends[] = {"</svg>\n", "IEND\xae\x42\x60\x82", "%%EOF\n"};
  char tail[32];
  if (fseek(picture, -(long)sizeof tail, SEEK_END) != 0 || fread(tail, 1, sizeof tail, picture) != sizeof tail)
    return false;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (memmem(tail, sizeof tail, ends[i], strlen(ends[i])))
      return true;
  return false;
}

/* Copies the picture; gnuplot does not write to `out` itself, so that write errors are seen here. */
static int copy_picture(FILE *picture, FILE *out, struct err *err) {
  char buf[1 << 14];
  size_t n, total = 0;
  rewind(picture);
  while ((n = fread(buf, 1, sizeof buf, picture)) > 0) {
    total += n;
    if (fwrite(buf, 1, n, out) != n)
      return err_set(err, "cannot write the picture: %s", strerror(errno));
  }
  if (ferror(picture))
    return err_set(err, "cannot read the picture that gnuplot made: %s", strerror(errno));
  if (total == 0)
    return err_set(err, "gnuplot made no picture");
  return is_whole(picture) ? 0
                           : err_set(err, "gnuplot made an incomplete picture; is the disk of temporary files full?");
}

int gnuplot_run(struct gnuplot *g, FILE *out, struct err *err) {
  ASSERT(fflush(g->script) == 0);
  FILE *script = tmpfile(), *picture = tmpfile(), *messages = tmpfile();
  int status;
  if (!script || !picture || !messages)
    status = err_set(err, "cannot create a temporary file: %s", strerror(errno));
  else
    status = run(g, script, picture, messages, err);
  if (status == 0)
    status = copy_picture(picture, out, err);
  close_if(script);
  close_if(picture);
  close_if(messages);
  return status;
}
