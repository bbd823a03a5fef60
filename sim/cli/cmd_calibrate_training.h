/* cmd_calibrate_training.h: calibrate check --training and calibrate fit-training. */
#ifndef SIM_CLI_CMD_CALIBRATE_TRAINING_H
#define SIM_CLI_CMD_CALIBRATE_TRAINING_H

/* argv[0] is "check" (with --training among the arguments) or "fit-training"; returns the exit code. */
int cmd_calibrate_training(int argc, char **argv);

#endif
