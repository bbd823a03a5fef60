#include "sim/report/html.h"

#include <stdarg.h>

#include "sim/base/json.h"

void html_text(FILE *out, const char *text) {
  for (const char *s = text; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '&')
      fputs("&amp;", out);
    else if (c == '<')
      fputs("&lt;", out);
    else if (c == '>')
      fputs("&gt;", out);
    else if (c == '"')
      fputs("&quot;", out);
    else if (c == '\'')
      fputs("&#39;", out);
    else
      fputc((c < 0x20 && c != '\n') || c == 0x7f ? '?' : c, out);
  }
}

void html_printf(FILE *out, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  html_text(out, text);
}

void html_table_begin(FILE *out, const char *caption) {
  fputs("<h4>", out);
  html_text(out, caption);
  fputs("</h4>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", out);
  html_text(out, caption);
  fputs("\"><table>\n<thead><tr>", out);
}

static void write_th(FILE *out, const char *title, const char *hint, bool of_text) {
  fprintf(out, "<th scope=\"col\"%s", of_text ? " class=\"text\"" : "");
  if (hint) {
    fputs(" title=\"", out);
    html_text(out, hint);
    fputc('"', out);
  }
  fputc('>', out);
  html_text(out, title);
  fputs("</th>", out);
}

void html_th(FILE *out, const char *title, const char *hint) { write_th(out, title, hint, false); }

void html_th_text(FILE *out, const char *title, const char *hint) { write_th(out, title, hint, true); }

void html_table_rows(FILE *out) { fputs("</tr></thead>\n<tbody>\n", out); }

void html_row_begin(FILE *out) { fputs("<tr>", out); }

void html_row_name(FILE *out, const char *text) {
  fputs("<th scope=\"row\">", out);
  html_text(out, text);
  fputs("</th>", out);
}

void html_cell(FILE *out, const char *text) {
  fputs("<td class=\"text\">", out);
  html_text(out, text);
  fputs("</td>", out);
}

void html_number(FILE *out, double sort_by, const char *text) {
  char number[32];
  double_text(sort_by, number);
  fprintf(out, "<td data-v=\"%s\">", number);
  html_text(out, text);
  fputs("</td>", out);
}

void html_row_end(FILE *out) { fputs("</tr>\n", out); }

void html_table_end(FILE *out) { fputs("</tbody></table></div>\n", out); }
