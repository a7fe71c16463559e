/* Draws a plan on standard output. */
#ifndef KOINE_COMMAND_PLAN_DRAW_H
#define KOINE_COMMAND_PLAN_DRAW_H

#include "command.h"

/* A graph in Graphviz's DOT language. */
void plan_dot(const kn_plan_step *steps, int count);
/* Steps in rows from top to bottom, each below all of its inputs. False if out of memory. */
bool plan_svg(const kn_plan_step *steps, int count);

#endif
