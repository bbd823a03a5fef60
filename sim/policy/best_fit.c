#include "sim/policy/best_fit.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

void best_fit_release(struct best_fit *f) {
  free(f->nodes);
  *f = (struct best_fit){0};
}

static struct best_fit_node *node(struct best_fit *f, uint32_t ref) { return &f->nodes[ref - 1]; }

static uint32_t priority(uint32_t ref) {
  ref = (ref ^ (ref >> 16)) * 0x45d9f3bu;
  ref = (ref ^ (ref >> 16)) * 0x45d9f3bu;
  return ref ^ (ref >> 16);
}

static bool is_above(uint32_t a, uint32_t b) {
  uint32_t pa = priority(a), pb = priority(b);
  return pa != pb ? pa > pb : a < b;
}

static bool is_before(struct best_fit *f, uint32_t ref, int64_t room, uint32_t key_ref) {
  int64_t r = node(f, ref)->room;
  return r != room ? r < room : ref < key_ref;
}

/* Nodes before the key into *low, the others into *high. */
static void split(struct best_fit *f, uint32_t tree, int64_t room, uint32_t key_ref, uint32_t *low, uint32_t *high) {
  while (tree) {
    struct best_fit_node *n = node(f, tree);
    if (is_before(f, tree, room, key_ref)) {
      *low = tree;
      low = &n->right;
      tree = n->right;
    } else {
      *high = tree;
      high = &n->left;
      tree = n->left;
    }
  }
  *low = *high = 0;
}

static uint32_t join(struct best_fit *f, uint32_t low, uint32_t high) {
  uint32_t root = 0, *at = &root;
  while (low && high) {
    if (is_above(low, high)) {
      *at = low;
      at = &node(f, low)->right;
      low = *at;
    } else {
      *at = high;
      at = &node(f, high)->left;
      high = *at;
    }
  }
  *at = low ? low : high;
  return root;
}

void best_fit_insert(struct best_fit *f, uint32_t pack, int64_t room) {
  if (pack >= f->cap) {
    f->cap = f->cap * 2 > pack ? f->cap * 2 : (size_t)pack + 64;
    f->nodes = xrealloc(f->nodes, size_mul(f->cap, sizeof *f->nodes));
  }
  uint32_t ref = pack + 1, *at = &f->root;
  while (*at && is_above(*at, ref))
    at = is_before(f, *at, room, ref) ? &node(f, *at)->right : &node(f, *at)->left;
  struct best_fit_node *n = node(f, ref);
  n->room = room;
  split(f, *at, room, ref, &n->left, &n->right);
  *at = ref;
}

bool best_fit_take(struct best_fit *f, int64_t need, uint32_t *pack, int64_t *room) {
  uint32_t *at = &f->root, *found = NULL;
  while (*at) {
    if (node(f, *at)->room >= need) {
      found = at;
      at = &node(f, *at)->left;
    } else {
      at = &node(f, *at)->right;
    }
  }
  if (!found)
    return false;
  struct best_fit_node n = *node(f, *found);
  *pack = *found - 1;
  *room = n.room;
  *found = join(f, n.left, n.right);
  return true;
}
